"""The system: all ports of a process, and the stages wired from them."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from notifier import topics
from notifier.config import Settings
from notifier.domain.audience import TierRule
from notifier.domain.slice import Step
from notifier.flow.attendant import Attendant
from notifier.flow.audit import Audit
from notifier.flow.bitmaps import Bitmaps
from notifier.flow.coordinator import Coordinator
from notifier.flow.delivery import Delivery
from notifier.flow.dispatcher import Dispatcher
from notifier.flow.gateway import PLACES_AT_ONCE, Gateway
from notifier.flow.indexer import Indexer
from notifier.flow.leadership import Leadership
from notifier.flow.monitor import Monitor
from notifier.flow.overview import Overview
from notifier.flow.preview import Preview
from notifier.flow.publisher import Publisher
from notifier.flow.push import Push
from notifier.flow.rates import Rates
from notifier.flow.reaching import Reaching
from notifier.flow.reconciler import Reconciler
from notifier.flow.registrar import Registrar
from notifier.flow.retractor import Retractor
from notifier.flow.rollup import RollUp
from notifier.flow.router import Router, Sizes
from notifier.flow.settling import Settling
from notifier.flow.tab import Tab, Watch, unwatched
from notifier.flow.tiering import tier_rule
from notifier.flow.voice import Voice
from notifier.flow.work import Work
from notifier.ports.activity import Activity
from notifier.ports.bus import LiveReader
from notifier.ports.chosen import Ports
from notifier.ports.clock import Clock
from notifier.ports.log import Logged
from notifier.ports.people import People
from notifier.ports.preferences import Preferences
from notifier.ports.pull import PullReader
from notifier.ports.timeline import Timeline
from notifier.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The read path's, all asynchronous."""

    people: People
    preferences: Preferences
    timeline: Timeline
    pull: PullReader
    activity: Activity
    live: LiveReader
    clock: Clock

    def tab(self, watch: Watch = unwatched) -> Tab:
        return Tab(people=self.people, timeline=self.timeline, pull=self.pull, clock=self.clock, watch=watch)

    def audit(self, metrics: Metrics, pause: Callable[[], Awaitable[object]]) -> Audit:
        return Audit(people=self.people, timeline=self.timeline, metrics=metrics, pause=pause)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    ports: Ports
    settings: Settings
    metrics: Metrics
    owner: str
    """This process, by a name that no other has."""
    voice: Voice = field(init=False)
    """Of all coordinators of the process."""
    rule: TierRule = field(init=False)
    """Of all who divide an audience."""

    def __post_init__(self) -> None:
        """Raises BadSetting for a rule of tiers that isn't one."""
        object.__setattr__(self, "rule", tier_rule(self.settings.tier_rule))
        object.__setattr__(self, "voice", Voice(bus=self.ports.bus))

    def gateway(self) -> Gateway:
        p = self.ports
        settle = partial(self.retractor().settle, most=PLACES_AT_ONCE)
        return Gateway(log=p.log, recent=p.recent, clock=p.clock, metrics=self.metrics, settle=settle)

    def preview(self, turn: Callable[[], AbstractContextManager[None]] = nullcontext) -> Preview:
        p = self.ports
        return Preview(
            reaching=self.reaching(),
            sets=p.sets,
            heads=p.heads,
            retractions=p.retractions,
            ledger=p.ledger,
            recent=p.recent_bursts,
            throttles=p.throttles,
            clock=p.clock,
            threshold=self.settings.threshold,
            collapse=self.settings.collapse,
            refill=self.settings.refill,
            rule=self.rule,
            turn=turn,
        )

    def stage(self, stream: str, holds: Callable[[], bool]) -> Callable[[Sequence[Logged]], None]:
        """The one that reads a stream; `holds` says whether what was read is still its own."""
        match topics.GROUPS[stream]:
            case "router":
                return self.router()
            case "coordinator":
                return self.coordinator()
            case "registrar":
                return self.registrar(holds)
            case "attendant":
                return self.attendant()
            case "retractor":
                return self.retractor()
            case _:
                return self.indexer(holds)

    def router(self) -> Router:
        p = self.ports
        return Router(
            log=p.log,
            reaching=self.reaching(),
            holds=p.holds,
            bursts=p.bursts,
            buckets=p.buckets,
            sizes=Sizes(sets=p.sets, heads=p.heads, clock=p.clock, threshold=self.settings.threshold),
            metrics=self.metrics,
            cap=self.settings.reach.cap,
        )

    def reaching(self) -> Reaching:
        p = self.ports
        return Reaching(directory=p.directory, reaches=p.reaches, overalls=p.overalls, follows=p.follows, holds=p.holds)

    def coordinator(self) -> Coordinator:
        p = self.ports
        return Coordinator(
            bursts=p.bursts,
            settling=self.settling(),
            publisher=self.publisher(),
            clock=p.clock,
            nonces=p.nonces,
            collapse=self.settings.collapse,
            refill=self.settings.refill,
        )

    def publisher(self) -> Publisher:
        p = self.ports
        return Publisher(
            heads=p.heads,
            bursts=p.bursts,
            sets=p.sets,
            ledger=p.ledger,
            pull=p.pull,
            voice=self.voice,
            clock=p.clock,
            nonces=p.nonces,
            metrics=self.metrics,
        )

    def settling(self) -> Settling:
        p = self.ports
        return Settling(retractions=p.retractions, bursts=p.bursts, publisher=self.publisher(), nonces=p.nonces)

    def retractor(self) -> Retractor:
        p = self.ports
        return Retractor(
            retractions=p.retractions, settling=self.settling(), bursts=p.bursts, voice=self.voice, clock=p.clock
        )

    def indexer(self, holds: Callable[[], bool]) -> Indexer:
        p = self.ports
        bitmaps = Bitmaps(follows=p.follows, wants=p.wants, overalls=p.overalls, sets=p.sets, metrics=self.metrics)
        return Indexer(directory=p.directory, bitmaps=bitmaps, partings=p.partings, epochs=p.epochs, holds=holds)

    def registrar(self, holds: Callable[[], bool]) -> Registrar:
        p = self.ports
        return Registrar(
            directory=p.directory, flags=p.flags, sets=p.sets, epochs=p.epochs, metrics=self.metrics, holds=holds
        )

    def attendant(self) -> Attendant:
        p = self.ports
        return Attendant(directory=p.directory, hours=p.active_hours, clock=p.clock)

    def dispatcher(self) -> Dispatcher:
        p = self.ports
        return Dispatcher(
            ledger=p.ledger,
            queue=p.queue,
            rates=Rates(throttles=p.throttles, pressure=p.pressure),
            leadership=self._leadership("dispatcher", timedelta(seconds=5)),
            report=p.report,
            clock=p.clock,
            metrics=self.metrics,
        )

    def delivery(self) -> Delivery:
        p = self.ports
        return Delivery(sets=p.sets, seals=p.seals, inbox=p.inbox, clock=p.clock, metrics=self.metrics, rule=self.rule)

    def push(self) -> Push:
        p = self.ports
        return Push(
            bursts=p.bursts,
            seals=p.seals,
            ledger=p.ledger,
            spared=p.spared,
            sender=p.sender,
            sent=p.sent,
            clock=p.clock,
            metrics=self.metrics,
        )

    def work(self, alive: Callable[[], None] = lambda: None, stopping: Callable[[], bool] = lambda: False) -> Work:
        """Calls `alive` while a slice makes progress, and hands it back once `stopping` says so."""
        p = self.ports
        return Work(
            doings={Step.ROWS: self.delivery(), Step.PUSH: self.push()},
            bursts=p.bursts,
            claims=p.claims,
            ledger=p.ledger,
            dead_letters=p.dead_letters,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            alive=alive,
            stopping=stopping,
        )

    def reconciler(self) -> Reconciler:
        p = self.ports
        return Reconciler(
            publisher=self.publisher(),
            heads=p.heads,
            recent=p.recent_bursts,
            pull=p.pull,
            ledger=p.ledger,
            seals=p.seals,
            inbox=p.inbox,
            holds=p.holds,
            log=p.log,
            leadership=self._leadership("reconciler", timedelta(seconds=10)),
            clock=p.clock,
            metrics=self.metrics,
        )

    def monitor(self) -> Monitor:
        p = self.ports
        return Monitor(
            leases=p.leases,
            queue=p.queue,
            report=p.report,
            pressure=p.pressure,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            every=self.settings.monitor_every,
        )

    def rollup(self) -> RollUp:
        p = self.ports
        return RollUp(
            directory=p.directory,
            hours=p.active_hours,
            stays=p.stays,
            sets=p.sets,
            epochs=p.epochs,
            leadership=self._leadership("rollup", 2 * self.settings.roll_up_every),
            clock=p.clock,
            metrics=self.metrics,
            reach=self.settings.p2_days,
        )

    def overview(self) -> Overview:
        """One for each process: it remembers what it has looked at."""
        p = self.ports
        return Overview(
            ledger=p.ledger,
            recent=p.recent_bursts,
            seals=p.seals,
            throttles=p.throttles,
            report=p.report,
            pressure=p.pressure,
            pull=p.pull,
            clock=p.clock,
        )

    def _leadership(self, name: str, term: timedelta) -> Leadership:
        return Leadership(leases=self.ports.leases, name=name, owner=self.owner, term=term)
