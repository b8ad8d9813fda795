"""Containers of all ports, as each deployment profile provides them."""

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
    """Ports of the write path. All are blocking."""

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
    """Platforms that alerts go to: those with configured credentials."""
    clock: Clock
    nonces: Nonces
    chance: Callable[[], float]
    """Returns a random number in [0, 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPorts:
    """Ports of the read path. All are asynchronous, and their connections belong to one event loop."""

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
