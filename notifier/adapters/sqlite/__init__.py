"""Embedded store and event log: SQLite files in one data folder."""

from notifier.adapters.sqlite.async_reader import SqliteReader
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.archive import SqliteArchive
from notifier.adapters.sqlite.stores.burst_changes import SqliteBurstChanges, SqliteViewerLapses
from notifier.adapters.sqlite.stores.bursts import SqliteBursts, SqliteHeads, SqliteRecentBursts
from notifier.adapters.sqlite.stores.coordination import SqliteEpochs, SqliteLeases, SqliteThrottles
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteDeadLetterTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.directory import SqliteAccountFlags, SqliteDirectory
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox import SqliteInbox
from notifier.adapters.sqlite.stores.ledger import SqliteClaims, SqliteDeferredBursts, SqliteLedger
from notifier.adapters.sqlite.stores.member_sets import SqliteActiveSets, SqliteMemberSets
from notifier.adapters.sqlite.stores.moderation import SqliteHeldMentions, SqliteReachLimits
from notifier.adapters.sqlite.stores.people import SqlitePeople
from notifier.adapters.sqlite.stores.push import SqlitePushSuppressions, SqliteSendLog
from notifier.adapters.sqlite.stores.retractions import SqliteErasureTargets, SqliteRetractions
from notifier.adapters.sqlite.stores.snapshots import SqliteAudienceSnapshots
from notifier.adapters.sqlite.stores.timeline import SqliteTimeline
from notifier.adapters.sqlite.stores.user_preferences import (
    SqliteAccountPreferences,
    SqlitePreferences,
    SqliteSubjectPreferences,
    SqliteUserBlocks,
)

__all__ = [
    "Database",
    "Files",
    "SqliteAccountFlags",
    "SqliteAccountPreferences",
    "SqliteActiveSets",
    "SqliteArchive",
    "SqliteAudienceSnapshots",
    "SqliteBurstChanges",
    "SqliteBursts",
    "SqliteClaims",
    "SqliteDeadLetterTallies",
    "SqliteDeadLetters",
    "SqliteDeferredBursts",
    "SqliteDevices",
    "SqliteDirectory",
    "SqliteEpochs",
    "SqliteErasureTargets",
    "SqliteFollows",
    "SqliteHeads",
    "SqliteHeldMentions",
    "SqliteInbox",
    "SqliteLeases",
    "SqliteLedger",
    "SqliteLog",
    "SqliteMemberSets",
    "SqlitePeople",
    "SqlitePreferences",
    "SqlitePushSuppressions",
    "SqliteReachLimits",
    "SqliteReader",
    "SqliteRecentBursts",
    "SqliteRetractions",
    "SqliteSendLog",
    "SqliteSubjectPreferences",
    "SqliteThrottles",
    "SqliteTimeline",
    "SqliteUserBlocks",
    "SqliteViewerLapses",
]
