"""All ports of the write path and of the read path, as a profile provides them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from notifier.domain.ids import Platform
from notifier.ports.audience import ActiveHours, Activity, Follows, MemberSets, Stays
from notifier.ports.bursts import Bursts, Heads, RecentBursts
from notifier.ports.cache import BacklogReport, Buckets, Pressure, Recent
from notifier.ports.coordination import Clock, Epochs, Leases, Nonces, Queue, Throttles
from notifier.ports.directory import Directory, Flags
from notifier.ports.event_log import DeadLetters, EventLog, LaneTallies
from notifier.ports.inbox import InboxStore, Seals, Timeline
from notifier.ports.inbox_versions import BurstChanges, InboxVersions, ViewerLapses, ViewerVersions
from notifier.ports.ledger import Archive, Claims, Ledger, Sleepers
from notifier.ports.live_bus import LiveBus, LiveReader
from notifier.ports.pull_index import PullIndex, PullReader
from notifier.ports.push import Devices, FrequencyCapStore, LineReport, Paces, Provider, SendLog, Spared, TabReport
from notifier.ports.retractions import Holds, Reaches, Retractions, Traces
from notifier.ports.users import Overalls, Partings, People, Preferences, Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The write path's ports. All block."""

    log: EventLog
    directory: Directory
    sets: MemberSets
    heads: Heads
    bursts: Bursts
    recent_bursts: RecentBursts
    viewer_lapses: ViewerLapses
    versions: ViewerVersions
    retractions: Retractions
    ledger: Ledger
    sleepers: Sleepers
    claims: Claims
    seals: Seals
    inbox: InboxStore
    follows: Follows
    wants: Wants
    overalls: Overalls
    partings: Partings
    flags: Flags
    devices: Devices
    stays: Stays
    epochs: Epochs
    reaches: Reaches
    holds: Holds
    traces: Traces
    throttles: Throttles
    dead_letters: DeadLetters
    lane_tallies: LaneTallies
    sent: SendLog
    spared: Spared
    leases: Leases
    archive: Archive
    pull: PullIndex
    recent: Recent
    buckets: Buckets
    pressure: Pressure
    report: BacklogReport
    active_hours: ActiveHours
    paces: Paces
    caps: FrequencyCapStore
    tabs: TabReport
    lines: LineReport
    bus: LiveBus
    queue: Queue
    providers: Mapping[Platform, Provider]
    platforms: Collection[Platform]
    """Those of them that alerts go to: for the others nobody said by which key."""
    clock: Clock
    nonces: Nonces
    chance: Callable[[], float]
    """From 0 to 1, and never 1 itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPorts:
    """The read path's ports. All are asynchronous, and their connections belong to one event loop."""

    people: People
    preferences: Preferences
    timeline: Timeline
    burst_changes: BurstChanges
    pull: PullReader
    versions: InboxVersions
    activity: Activity
    live: LiveReader
    clock: Clock
    nonces: Nonces
