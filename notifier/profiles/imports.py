"""What an import reads, and where it keeps what it read: files of this machine, whichever profile has the store."""

from notifier.adapters.spill import SpilledEdges
from notifier.adapters.tables.account import ACCOUNTS, VIPS
from notifier.adapters.tables.edge import EDGES
from notifier.adapters.tables.layout import Ignore, Layout
from notifier.adapters.tables.preference import PREFERENCES
from notifier.adapters.tables.source import Source, form_of, opened

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
