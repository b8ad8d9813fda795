"""Cassandra: the durable store past one machine."""

from notifier.adapters.cassandra.archive import CassandraArchive
from notifier.adapters.cassandra.burst_changes import CassandraBurstChanges, CassandraViewerLapses
from notifier.adapters.cassandra.bursts import CassandraBursts
from notifier.adapters.cassandra.claims import CassandraClaims
from notifier.adapters.cassandra.deadletters import CassandraDeadLetters
from notifier.adapters.cassandra.devices import CassandraDevices
from notifier.adapters.cassandra.directory import CassandraDirectory
from notifier.adapters.cassandra.entry import security
from notifier.adapters.cassandra.flags import CassandraFlags
from notifier.adapters.cassandra.follows import CassandraFollows
from notifier.adapters.cassandra.heads import CassandraHeads
from notifier.adapters.cassandra.holds import CassandraHolds
from notifier.adapters.cassandra.inbox import CassandraInbox
from notifier.adapters.cassandra.inspection import Node, Nodes, look
from notifier.adapters.cassandra.lane_tallies import CassandraLaneTallies
from notifier.adapters.cassandra.leases import CassandraLeases
from notifier.adapters.cassandra.ledger import CassandraLedger
from notifier.adapters.cassandra.migrate import Phase, migrate, missing, pending, require
from notifier.adapters.cassandra.numbers import CassandraEpochs
from notifier.adapters.cassandra.overalls import CassandraOveralls
from notifier.adapters.cassandra.partings import CassandraPartings
from notifier.adapters.cassandra.people import CassandraPeople
from notifier.adapters.cassandra.preferences import CassandraPreferences
from notifier.adapters.cassandra.reaches import CassandraReaches
from notifier.adapters.cassandra.reader import Reader
from notifier.adapters.cassandra.recent import CassandraRecentBursts
from notifier.adapters.cassandra.register import Entry
from notifier.adapters.cassandra.retractions import CassandraRetractions
from notifier.adapters.cassandra.seals import CassandraSeals
from notifier.adapters.cassandra.sent import CassandraSent
from notifier.adapters.cassandra.session import Access, Cluster
from notifier.adapters.cassandra.sets import CassandraMemberSets
from notifier.adapters.cassandra.sleepers import CassandraSleepers
from notifier.adapters.cassandra.spared import CassandraSpared
from notifier.adapters.cassandra.stays import CassandraStays
from notifier.adapters.cassandra.throttles import CassandraThrottles
from notifier.adapters.cassandra.timeline import CassandraTimeline
from notifier.adapters.cassandra.traces import CassandraTraces
from notifier.adapters.cassandra.wants import CassandraWants

__all__ = [
    "Access",
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
    "Entry",
    "Node",
    "Nodes",
    "Phase",
    "Reader",
    "look",
    "migrate",
    "missing",
    "pending",
    "require",
    "security",
]
