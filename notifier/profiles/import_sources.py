"""Sources and spill files of an import, which are local files in every profile.

Separate from `profile.py`, because reading Parquet imports a library that starts a thread: no role may import it.
"""

from notifier.adapters.imports.datasets import ACCOUNTS, FOLLOWS, PREFERENCES, VIPS
from notifier.adapters.imports.layout import Ignore, Layout
from notifier.adapters.imports.source import Source, SpilledEdges, form_of, open_source

__all__ = [
    "ACCOUNTS",
    "FOLLOWS",
    "PREFERENCES",
    "VIPS",
    "Ignore",
    "Layout",
    "Source",
    "SpilledEdges",
    "form_of",
    "open_source",
]
