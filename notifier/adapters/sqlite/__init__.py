"""Embedded store and event log: SQLite files in one data folder."""

from notifier.adapters.sqlite.async_queries import SqliteReader
from notifier.adapters.sqlite.connections_and_transactions import Database
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.audience_snapshots import SqliteAudienceSnapshots
from notifier.adapters.sqlite.stores.burst_change_feed import SqliteBurstChanges, SqliteViewerLapses
from notifier.adapters.sqlite.stores.bursts_and_sequence_heads import SqliteBursts, SqliteHeads, SqliteRecentBursts
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetters, SqliteDeadLetterTallies
from notifier.adapters.sqlite.stores.devices import SqliteDevices
from notifier.adapters.sqlite.stores.follows import SqliteFollows
from notifier.adapters.sqlite.stores.inbox_rows import SqliteInbox
from notifier.adapters.sqlite.stores.inbox_timeline import SqliteTimeline
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import SqliteEpochs, SqliteLeases, SqliteThrottles
from notifier.adapters.sqlite.stores.ledger_and_deferred_bursts import SqliteClaims, SqliteDeferredBursts, SqliteLedger
from notifier.adapters.sqlite.stores.member_sets_and_active_sets import SqliteActiveSets, SqliteMemberSets
from notifier.adapters.sqlite.stores.moderation import SqliteAuthorVerdicts, SqliteHeldMentions
from notifier.adapters.sqlite.stores.preferences_and_user_blocks import (
    SqliteAccountPreferences,
    SqlitePreferences,
    SqliteSubjectPreferences,
    SqliteUserBlocks,
)
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import SqliteErasureTargets, SqliteRetractions
from notifier.adapters.sqlite.stores.send_log_and_suppressions import SqlitePushSuppressions, SqliteSendLog
from notifier.adapters.sqlite.stores.store_scan import SqliteStoreScan
from notifier.adapters.sqlite.stores.user_directory_and_account_flags import SqliteAccountFlags, SqliteDirectory
from notifier.adapters.sqlite.stores.viewer_facts_and_marks import SqlitePeople

__all__ = [
    "Database",
    "Files",
    "SqliteAccountFlags",
    "SqliteAccountPreferences",
    "SqliteActiveSets",
    "SqliteAudienceSnapshots",
    "SqliteAuthorVerdicts",
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
    "SqliteReader",
    "SqliteRecentBursts",
    "SqliteRetractions",
    "SqliteSendLog",
    "SqliteStoreScan",
    "SqliteSubjectPreferences",
    "SqliteThrottles",
    "SqliteTimeline",
    "SqliteUserBlocks",
    "SqliteViewerLapses",
]
