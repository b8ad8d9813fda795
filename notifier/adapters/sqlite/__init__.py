"""The embedded store and log: SQLite files in one data folder, each with its own adapter per port."""

from notifier.adapters.sqlite.archive import SqliteArchive
from notifier.adapters.sqlite.burst_changes import SqliteBurstChanges, SqliteViewerLapses
from notifier.adapters.sqlite.bursts import SqliteBursts, SqliteRecentBursts
from notifier.adapters.sqlite.claims import SqliteClaims
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.deadletters import SqliteDeadLetters
from notifier.adapters.sqlite.devices import SqliteDevices
from notifier.adapters.sqlite.directory import SqliteDirectory
from notifier.adapters.sqlite.epochs import SqliteEpochs
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.flags import SqliteFlags
from notifier.adapters.sqlite.follows import SqliteFollows
from notifier.adapters.sqlite.heads import SqliteHeads
from notifier.adapters.sqlite.holds import SqliteHolds
from notifier.adapters.sqlite.inbox import SqliteInbox
from notifier.adapters.sqlite.lane_tallies import SqliteLaneTallies
from notifier.adapters.sqlite.leases import SqliteLeases
from notifier.adapters.sqlite.ledger import SqliteLedger
from notifier.adapters.sqlite.log import SqliteLog
from notifier.adapters.sqlite.overalls import SqliteOveralls
from notifier.adapters.sqlite.partings import SqlitePartings
from notifier.adapters.sqlite.people import SqlitePeople
from notifier.adapters.sqlite.preferences import SqlitePreferences
from notifier.adapters.sqlite.reaches import SqliteReaches
from notifier.adapters.sqlite.reader import Reader
from notifier.adapters.sqlite.retractions import SqliteRetractions
from notifier.adapters.sqlite.seals import SqliteSeals
from notifier.adapters.sqlite.sent import SqliteSent
from notifier.adapters.sqlite.sets import SqliteMemberSets
from notifier.adapters.sqlite.sleepers import SqliteSleepers
from notifier.adapters.sqlite.spared import SqliteSpared
from notifier.adapters.sqlite.stays import SqliteStays
from notifier.adapters.sqlite.throttles import SqliteThrottles
from notifier.adapters.sqlite.timeline import SqliteTimeline
from notifier.adapters.sqlite.traces import SqliteTraces
from notifier.adapters.sqlite.wants import SqliteWants

__all__ = [
    "Database",
    "Files",
    "Reader",
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
