"""The ports of the write path, all of them: a profile chooses them, and a system is wired from them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from notifier.domain.push.device import Platform
from notifier.ports.activity import ActiveHours
from notifier.ports.archive import Archive
from notifier.ports.bursts import Bursts, RecentBursts
from notifier.ports.bus import LiveBus
from notifier.ports.cache import BacklogReport, Buckets, Pressure, Recent
from notifier.ports.clock import Clock, Nonces
from notifier.ports.deadletters import DeadLetters
from notifier.ports.devices import Devices
from notifier.ports.directory import Directory
from notifier.ports.epochs import Epochs
from notifier.ports.flags import Flags
from notifier.ports.follows import Follows
from notifier.ports.heads import Heads
from notifier.ports.holds import Holds
from notifier.ports.inbox import Inbox
from notifier.ports.lane_tallies import LaneTallies
from notifier.ports.leases import Leases
from notifier.ports.ledger import Claims, Ledger, Sleepers
from notifier.ports.log import EventLog
from notifier.ports.overalls import Overalls
from notifier.ports.pacing import Caps, LineReport, Paces, TabReport
from notifier.ports.partings import Partings
from notifier.ports.providers import Provider
from notifier.ports.pull import PullIndex
from notifier.ports.push import Sent, Spared
from notifier.ports.queue import Queue
from notifier.ports.reaches import Reaches
from notifier.ports.retractions import Retractions
from notifier.ports.seals import Seals
from notifier.ports.sets import MemberSets
from notifier.ports.stays import Stays
from notifier.ports.throttles import Throttles
from notifier.ports.traces import Traces
from notifier.ports.viewer_lapses import ViewerLapses
from notifier.ports.viewer_versions import ViewerVersions
from notifier.ports.wants import Wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All synchronous."""

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
    inbox: Inbox
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
    sent: Sent
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
    caps: Caps
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
