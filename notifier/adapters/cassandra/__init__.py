"""Cassandra adapters: the durable store for deployments of more than one machine."""

from notifier.adapters.cassandra.driver.async_reader import CassandraReader
from notifier.adapters.cassandra.driver.errors import security
from notifier.adapters.cassandra.driver.session import CassandraAccess, Cluster
from notifier.adapters.cassandra.schema.health import Node, Nodes, look
from notifier.adapters.cassandra.schema.migrate import MigrationEntry, Phase, migrate, missing, pending, require
from notifier.adapters.cassandra.stores.archive import CassandraArchive
from notifier.adapters.cassandra.stores.burst_changes import CassandraBurstChanges, CassandraViewerLapses
from notifier.adapters.cassandra.stores.bursts import CassandraBursts, CassandraHeads, CassandraRecentBursts
from notifier.adapters.cassandra.stores.coordination import CassandraLeases, CassandraThrottles
from notifier.adapters.cassandra.stores.dead_letters import CassandraDeadLetters, CassandraLaneTallies
from notifier.adapters.cassandra.stores.deferred_bursts import CassandraSleepers
from notifier.adapters.cassandra.stores.devices import CassandraDevices
from notifier.adapters.cassandra.stores.directory import CassandraDirectory, CassandraEpochs, CassandraFlags
from notifier.adapters.cassandra.stores.follows import CassandraFollows
from notifier.adapters.cassandra.stores.inbox import CassandraInbox
from notifier.adapters.cassandra.stores.ledger import CassandraClaims, CassandraLedger
from notifier.adapters.cassandra.stores.member_sets import CassandraMemberSets, CassandraStays
from notifier.adapters.cassandra.stores.moderation import CassandraHolds, CassandraReaches
from notifier.adapters.cassandra.stores.people import CassandraPeople
from notifier.adapters.cassandra.stores.push import CassandraSent, CassandraSpared
from notifier.adapters.cassandra.stores.retractions import CassandraRetractions, CassandraTraces
from notifier.adapters.cassandra.stores.snapshots import CassandraSeals
from notifier.adapters.cassandra.stores.timeline import CassandraTimeline
from notifier.adapters.cassandra.stores.user_preferences import (
    CassandraOveralls,
    CassandraPartings,
    CassandraPreferences,
    CassandraWants,
)

__all__ = [
    "CassandraAccess",
    "CassandraArchive",
    "CassandraBurstChanges",
    "CassandraBursts",
    "CassandraClaims",
    "CassandraDeadLetters",
    "CassandraDevices",
    "CassandraDirectory",
    "CassandraEpochs",
    "CassandraFlags",
    "CassandraFollows",
    "CassandraHeads",
    "CassandraHolds",
    "CassandraInbox",
    "CassandraLaneTallies",
    "CassandraLeases",
    "CassandraLedger",
    "CassandraMemberSets",
    "CassandraOveralls",
    "CassandraPartings",
    "CassandraPeople",
    "CassandraPreferences",
    "CassandraReaches",
    "CassandraReader",
    "CassandraRecentBursts",
    "CassandraRetractions",
    "CassandraSeals",
    "CassandraSent",
    "CassandraSleepers",
    "CassandraSpared",
    "CassandraStays",
    "CassandraThrottles",
    "CassandraTimeline",
    "CassandraTraces",
    "CassandraViewerLapses",
    "CassandraWants",
    "Cluster",
    "MigrationEntry",
    "Node",
    "Nodes",
    "Phase",
    "look",
    "migrate",
    "missing",
    "pending",
    "require",
    "security",
]
