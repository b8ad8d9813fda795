"""Cassandra adapters: the durable store for deployments of more than one machine."""

from notifier.adapters.cassandra.driver.async_queries import AsyncQueries
from notifier.adapters.cassandra.driver.session import CassandraAccess, Cluster, security_options
from notifier.adapters.cassandra.schema.cluster_status import CassandraStatus, NodeStatus, cassandra_status
from notifier.adapters.cassandra.schema.migrate import (
    MigrationEntry,
    Phase,
    migrate,
    migration_differences,
    pending_migrations,
    require_schema,
)
from notifier.adapters.cassandra.stores.audience_snapshots import CassandraAudienceSnapshots
from notifier.adapters.cassandra.stores.burst_change_feed import CassandraBurstChanges, CassandraViewerLapses
from notifier.adapters.cassandra.stores.bursts_and_sequence_heads import (
    CassandraBursts,
    CassandraHeads,
    CassandraRecentBursts,
)
from notifier.adapters.cassandra.stores.dead_letters import CassandraDeadLetters, CassandraDeadLetterTallies
from notifier.adapters.cassandra.stores.deferred_bursts import CassandraDeferredBursts
from notifier.adapters.cassandra.stores.devices import CassandraDevices
from notifier.adapters.cassandra.stores.follows import CassandraFollows
from notifier.adapters.cassandra.stores.inbox_rows import CassandraInbox
from notifier.adapters.cassandra.stores.inbox_timeline import CassandraTimeline
from notifier.adapters.cassandra.stores.leases_epochs_throttles_audit import (
    CassandraEpochs,
    CassandraLeases,
    CassandraThrottles,
)
from notifier.adapters.cassandra.stores.ledger import CassandraClaims, CassandraLedger
from notifier.adapters.cassandra.stores.member_sets_and_active_sets import CassandraActiveSets, CassandraMemberSets
from notifier.adapters.cassandra.stores.moderation import CassandraAuthorVerdicts, CassandraHeldMentions
from notifier.adapters.cassandra.stores.preferences_and_user_blocks import (
    CassandraAccountPreferences,
    CassandraPreferences,
    CassandraSubjectPreferences,
    CassandraUserBlocks,
)
from notifier.adapters.cassandra.stores.retractions_and_text_erasure import (
    CassandraErasureTargets,
    CassandraRetractions,
)
from notifier.adapters.cassandra.stores.send_log_and_suppressions import CassandraPushSuppressions, CassandraSendLog
from notifier.adapters.cassandra.stores.store_scan import CassandraStoreScan
from notifier.adapters.cassandra.stores.user_directory_and_account_flags import (
    CassandraAccountFlags,
    CassandraDirectory,
)
from notifier.adapters.cassandra.stores.viewer_facts_and_marks import CassandraPeople

__all__ = [
    "AsyncQueries",
    "CassandraAccess",
    "CassandraAccountFlags",
    "CassandraAccountPreferences",
    "CassandraActiveSets",
    "CassandraAudienceSnapshots",
    "CassandraAuthorVerdicts",
    "CassandraBurstChanges",
    "CassandraBursts",
    "CassandraClaims",
    "CassandraDeadLetterTallies",
    "CassandraDeadLetters",
    "CassandraDeferredBursts",
    "CassandraDevices",
    "CassandraDirectory",
    "CassandraEpochs",
    "CassandraErasureTargets",
    "CassandraFollows",
    "CassandraHeads",
    "CassandraHeldMentions",
    "CassandraInbox",
    "CassandraLeases",
    "CassandraLedger",
    "CassandraMemberSets",
    "CassandraPeople",
    "CassandraPreferences",
    "CassandraPushSuppressions",
    "CassandraRecentBursts",
    "CassandraRetractions",
    "CassandraSendLog",
    "CassandraStatus",
    "CassandraStoreScan",
    "CassandraSubjectPreferences",
    "CassandraThrottles",
    "CassandraTimeline",
    "CassandraUserBlocks",
    "CassandraViewerLapses",
    "Cluster",
    "MigrationEntry",
    "NodeStatus",
    "Phase",
    "cassandra_status",
    "migrate",
    "migration_differences",
    "pending_migrations",
    "require_schema",
    "security_options",
]
