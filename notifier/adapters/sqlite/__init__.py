"""Embedded store and event log: SQLite files in one data folder."""

from notifier.adapters.sqlite.async_reader import SqliteReader
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.archive import SqliteArchive
from notifier.adapters.sqlite.stores.burst_changes import SqliteBurstChanges, SqliteViewerLapses
from notifier.adapters.sqlite.stores.bursts import SqliteBursts, SqliteHeads, SqliteRecentBursts
from notifier.adapters.sqlite.stores.coordination import SqliteEpochs, SqliteLeases, SqliteThrottles
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteLaneTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.directory import SqliteDirectory, SqliteFlags
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox import SqliteInbox
from notifier.adapters.sqlite.stores.ledger import SqliteClaims, SqliteLedger, SqliteSleepers
from notifier.adapters.sqlite.stores.member_sets import SqliteMemberSets, SqliteStays
from notifier.adapters.sqlite.stores.moderation import SqliteHolds, SqliteReaches
from notifier.adapters.sqlite.stores.people import SqlitePeople
from notifier.adapters.sqlite.stores.push import SqliteSent, SqliteSpared
from notifier.adapters.sqlite.stores.retractions import SqliteRetractions, SqliteTraces
from notifier.adapters.sqlite.stores.snapshots import SqliteSeals
from notifier.adapters.sqlite.stores.timeline import SqliteTimeline
from notifier.adapters.sqlite.stores.user_preferences import (
    SqliteOveralls,
    SqlitePartings,
    SqlitePreferences,
    SqliteWants,
)

__all__ = [
    "Database",
    "Files",
    "SqliteArchive",
    "SqliteBurstChanges",
    "SqliteBursts",
    "SqliteClaims",
    "SqliteDeadLetters",
    "SqliteDevices",
    "SqliteDirectory",
    "SqliteEpochs",
    "SqliteFlags",
    "SqliteFollows",
    "SqliteHeads",
    "SqliteHolds",
    "SqliteInbox",
    "SqliteLaneTallies",
    "SqliteLeases",
    "SqliteLedger",
    "SqliteLog",
    "SqliteMemberSets",
    "SqliteOveralls",
    "SqlitePartings",
    "SqlitePeople",
    "SqlitePreferences",
    "SqliteReaches",
    "SqliteReader",
    "SqliteRecentBursts",
    "SqliteRetractions",
    "SqliteSeals",
    "SqliteSent",
    "SqliteSleepers",
    "SqliteSpared",
    "SqliteStays",
    "SqliteThrottles",
    "SqliteTimeline",
    "SqliteTraces",
    "SqliteViewerLapses",
    "SqliteWants",
]
