"""The system: all ports of a process, and the stages wired from them, room by room in the way of the data."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from notifier import topics
from notifier.config import Settings
from notifier.domain.audience.tiers import TierRule
from notifier.domain.delivery.slice import PHONES, Step
from notifier.domain.ids import Platform
from notifier.flow.accounts.account_indexer import Registrar
from notifier.flow.delivery.dispatcher import Dispatcher
from notifier.flow.delivery.load_monitor import Monitor
from notifier.flow.delivery.reconciler import Reconciler
from notifier.flow.delivery.row_writer import Delivery
from notifier.flow.delivery.slice_worker import Work
from notifier.flow.delivery.throttling import Rates
from notifier.flow.devices.device_indexer import Departed, Switchboard
from notifier.flow.devices.registry import PhoneBook
from notifier.flow.indexing.activity import Attendant, RollUp
from notifier.flow.indexing.bitmap_repair import MendedSets
from notifier.flow.indexing.bitmaps import Bitmaps
from notifier.flow.indexing.graph_indexer import Indexer
from notifier.flow.indexing.tier_rule import tier_rule
from notifier.flow.intake.gateway import PLACES_AT_ONCE, Gateway
from notifier.flow.intake.moderation import Reaching
from notifier.flow.intake.router import Router, Sizes
from notifier.flow.lane_guard import LaneGuards
from notifier.flow.leadership import Leadership
from notifier.flow.operations.overview import Overview
from notifier.flow.operations.preview import Preview
from notifier.flow.push.batches import Calls
from notifier.flow.push.catch_up import Away, Neighbours
from notifier.flow.push.circuit_breakers import Breakers
from notifier.flow.push.frequency_caps import Capping
from notifier.flow.push.push_handler import Push
from notifier.flow.push.rate_limiter import Easing, Pacing
from notifier.flow.push.sender import Ringing
from notifier.flow.sequencing.coordinator import Coordinator
from notifier.flow.sequencing.erasure import Erasing
from notifier.flow.sequencing.live_publisher import Voice
from notifier.flow.sequencing.publisher import Publisher
from notifier.flow.sequencing.retraction_settlement import Settling
from notifier.flow.sequencing.retractor import Retractor
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.event_log import Logged
from notifier.wiring.read_side import Reads

# The house: what all stages of a process share.


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The rooms are classes of it without anything of their own, and a System has all of them."""

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

    def lane_guards(self) -> LaneGuards:
        """The dead-letter limit of the lanes that one loop or worker handles."""
        p = self.ports
        return LaneGuards(
            limit=self.settings.dead_letters.limit,
            tallies=p.lane_tallies,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
        )

    def leadership(self, name: str, term: timedelta) -> Leadership:
        return Leadership(leases=self.ports.leases, name=name, owner=self.owner, term=term)


# The room in which it is kept who has which devices.


class Calling(House):
    """Whoever takes accounts away asks for the book, too."""

    __slots__ = ()

    def phonebook(self) -> PhoneBook:
        p = self.ports
        return PhoneBook(devices=p.devices, directory=p.directory, log=p.log, clock=p.clock)

    def switchboard(self, holds: Callable[[], bool]) -> Switchboard:
        p = self.ports
        return Switchboard(
            devices=p.devices,
            departed=Departed(directory=p.directory, retractions=p.retractions),
            sets=p.sets,
            epochs=p.epochs,
            metrics=self.metrics,
            holds=holds,
        )


# The room in which mentions get their burst, and lose it.


class Numbering(Calling):
    """By a subject's head alone."""

    __slots__ = ()

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
            platforms=p.platforms,
        )

    def settling(self) -> Settling:
        p = self.ports
        return Settling(retractions=p.retractions, bursts=p.bursts, publisher=self.publisher(), nonces=p.nonces)

    def retractor(self) -> Retractor:
        p = self.ports
        return Retractor(
            retractions=p.retractions,
            settling=self.settling(),
            erasing=self.erasing(),
            bursts=p.bursts,
            voice=self.voice,
            clock=p.clock,
        )

    def erasing(self) -> Erasing:
        p = self.ports
        return Erasing(
            retractions=p.retractions,
            traces=p.traces,
            directory=p.directory,
            phonebook=self.phonebook(),
            clock=p.clock,
            metrics=self.metrics,
        )


# The room in which events come in, and are split by account.


class Hearing(Numbering):
    """Who retracts by HTTP waits for the heads."""

    __slots__ = ()

    def gateway(self) -> Gateway:
        p = self.ports
        settle = partial(self.retractor().settle, most=PLACES_AT_ONCE)
        return Gateway(log=p.log, recent=p.recent, clock=p.clock, metrics=self.metrics, settle=settle)

    def router(self) -> Router:
        p = self.ports
        return Router(
            log=p.log,
            reaching=self.reaching(),
            holds=p.holds,
            erasing=self.erasing(),
            bursts=p.bursts,
            buckets=p.buckets,
            sizes=Sizes(sets=p.sets, heads=p.heads, clock=p.clock, threshold=self.settings.threshold),
            metrics=self.metrics,
            cap=self.settings.reach.cap,
        )

    def reaching(self) -> Reaching:
        p = self.ports
        return Reaching(directory=p.directory, reaches=p.reaches, overalls=p.overalls, follows=p.follows, holds=p.holds)

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
            pushed=self.settings.push.pushed,
            turn=turn,
        )


# The room in which bitmaps are kept: who follows, wants, is a VIP, and is around.


class Counting(Calling):
    """One writer each."""

    __slots__ = ()

    def indexer(self, holds: Callable[[], bool]) -> Indexer:
        p = self.ports
        bitmaps = Bitmaps(follows=p.follows, wants=p.wants, overalls=p.overalls, sets=p.sets, metrics=self.metrics)
        return Indexer(directory=p.directory, bitmaps=bitmaps, partings=p.partings, epochs=p.epochs, holds=holds)

    def registrar(self, holds: Callable[[], bool]) -> Registrar:
        p = self.ports
        return Registrar(
            directory=p.directory,
            flags=p.flags,
            phonebook=self.phonebook(),
            sets=p.sets,
            epochs=p.epochs,
            metrics=self.metrics,
            holds=holds,
        )

    def attendant(self) -> Attendant:
        p = self.ports
        return Attendant(directory=p.directory, hours=p.active_hours, clock=p.clock)

    def rollup(self) -> RollUp:
        p = self.ports
        return RollUp(
            directory=p.directory,
            hours=p.active_hours,
            stays=p.stays,
            sets=p.sets,
            epochs=p.epochs,
            leadership=self.leadership("rollup", 2 * self.settings.roll_up_every),
            clock=p.clock,
            metrics=self.metrics,
            reach=self.settings.p2_days,
        )


# The room of those who look after the others: what is half done, late, or asked for by operators.


class Minding(Numbering):
    """They finish heads, too."""

    __slots__ = ()

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
            leadership=self.leadership("reconciler", timedelta(seconds=10)),
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
            lines=p.lines,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            every=self.settings.monitor_every,
        )

    def overview(self) -> Overview:
        """One for each process: it remembers what it has looked at."""
        p = self.ports
        return Overview(
            ledger=p.ledger,
            sleepers=p.sleepers,
            recent=p.recent_bursts,
            seals=p.seals,
            throttles=p.throttles,
            lane_tallies=p.lane_tallies,
            report=p.report,
            pressure=p.pressure,
            lines=p.lines,
            pull=p.pull,
            clock=p.clock,
        )


# The room in which bursts become rows and alerts.


class Telling(Calling):
    """Slice by slice."""

    __slots__ = ()

    def dispatcher(self) -> Dispatcher:
        p = self.ports
        return Dispatcher(
            ledger=p.ledger,
            sleepers=p.sleepers,
            queue=p.queue,
            rates=Rates(throttles=p.throttles, pressure=p.pressure, lane_tallies=p.lane_tallies),
            leadership=self.leadership("dispatcher", timedelta(seconds=5)),
            report=p.report,
            clock=p.clock,
            metrics=self.metrics,
        )

    def work(self, alive: Callable[[], None] = lambda: None, stopping: Callable[[], bool] = lambda: False) -> Work:
        """Calls `alive` while a slice makes progress, and hands it back once `stopping` says so."""
        p = self.ports
        return Work(
            doings={Step.ROWS: self.delivery(), **dict.fromkeys(PHONES, self.push())},
            bursts=p.bursts,
            claims=p.claims,
            ledger=p.ledger,
            dead_letters=p.dead_letters,
            guards=self.lane_guards(),
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
            alive=alive,
            stopping=stopping,
        )

    def delivery(self) -> Delivery:
        p = self.ports
        sets = MendedSets(port=p.sets, log=p.log, clock=p.clock)
        return Delivery(
            sets=sets,
            seals=p.seals,
            inbox=p.inbox,
            clock=p.clock,
            metrics=self.metrics,
            rule=self.rule,
            pushed=self.settings.push.pushed,
        )

    def push(self) -> Push:
        p = self.ports
        breakers, pacing = Breakers(clock=p.clock, report=p.lines, metrics=self.metrics), self.pacing()
        near = Neighbours(bursts=p.bursts)
        away = Away(neighbours=near, ledger=p.ledger, seals=p.seals, sent=p.sent, spared=p.spared)
        capping = Capping(caps=p.caps, metrics=self.metrics, terms=self.settings.push.caps)
        return Push(
            bursts=p.bursts,
            seals=p.seals,
            spared=p.spared,
            sent=p.sent,
            away=away,
            calls=Calls(devices=p.devices, capping=capping),
            ringing=self.ringing(breakers, pacing),
            breakers=breakers,
            pacing=pacing,
            clock=p.clock,
        )

    def ringing(self, breakers: Breakers, pacing: Mapping[Platform, Pacing]) -> Ringing:
        p = self.ports
        return Ringing(
            sent=p.sent,
            providers=p.providers,
            breakers=breakers,
            pacing=pacing,
            book=self.phonebook(),
            clock=p.clock,
            chance=p.chance,
            metrics=self.metrics,
        )

    def pacing(self) -> Mapping[Platform, Pacing]:
        p = self.ports
        easing = Easing(tabs=p.tabs, pressure=p.pressure, metrics=self.metrics)
        return {
            platform: Pacing(platform=platform, paces=p.paces, easing=easing, metrics=self.metrics, terms=terms)
            for platform, terms in self.settings.push.paces.items()
        }


__all__ = ["Reads", "System"]


class System(Hearing, Counting, Telling, Minding):
    """All stages of a process, each made when it is asked for."""

    __slots__ = ()

    def stage(self, stream: str, holds: Callable[[], bool]) -> Callable[[Sequence[Logged]], None]:
        """The one that reads a stream; `holds` says whether what was read is still its own."""
        match topics.GROUPS[stream]:
            case "router":
                return self.router()
            case "coordinator":
                return self.coordinator()
            case "registrar":
                return self.registrar(holds)
            case "switchboard":
                return self.switchboard(holds)
            case "attendant":
                return self.attendant()
            case "retractor":
                return self.retractor()
            case _:
                return self.indexer(holds)
