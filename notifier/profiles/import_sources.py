"""What an import reads, and where it keeps what it read: files of this machine, whichever profile has the store."""

from notifier.adapters.imports.datasets import ACCOUNTS, EDGES, PREFERENCES, VIPS
from notifier.adapters.imports.layout import Ignore, Layout
from notifier.adapters.imports.source import Source, form_of, opened
from notifier.adapters.imports.spill import SpilledEdges

__all__ = [
    "ACCOUNTS",
    "EDGES",
    "PREFERENCES",
    "VIPS",
    "Ignore",
    "Layout",
    "Source",
    "SpilledEdges",
    "form_of",
    "opened",
]
