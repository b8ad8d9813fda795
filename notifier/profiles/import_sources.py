"""Sources and spill files of `notifier import`: local files in every profile.

This is a module of its own because reading Parquet imports a library that starts a thread. Roles are forked from a
process that has imported their code, and must not inherit that thread.
"""

from notifier.adapters.imports.account_follow_preference_layouts import ACCOUNTS, FOLLOWS, PREFERENCES, VIPS
from notifier.adapters.imports.layout import Layout, ReportIgnored
from notifier.adapters.imports.sources_and_spilled_edges import Source, SpilledEdges, form_of, open_source

__all__ = [
    "ACCOUNTS",
    "FOLLOWS",
    "PREFERENCES",
    "VIPS",
    "Layout",
    "ReportIgnored",
    "Source",
    "SpilledEdges",
    "form_of",
    "open_source",
]
