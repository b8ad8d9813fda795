"""What an import reads, and where it keeps what it read: files of this machine, whichever profile has the store."""

from notifier.adapters.spill import SpilledEdges
from notifier.adapters.tables.source import Source, form_of, opened

__all__ = ["Source", "SpilledEdges", "form_of", "opened"]
