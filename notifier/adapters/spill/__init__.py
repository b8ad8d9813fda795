"""What an import has read and not written yet: sorted runs of edges in files of a folder."""

from notifier.adapters.spill.runs import SpilledEdges

__all__ = ["SpilledEdges"]
