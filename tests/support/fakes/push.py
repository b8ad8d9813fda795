"""In-memory rate limits, frequency caps, reports, devices, send log and push suppression."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain

from notifier.codec.push import spares
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.frequency_cap import CapLimits, CountedAlert, History, Ruling, judged, spent
from notifier.domain.push.rate_limit import TERMS, Pace, Terms, drawn, told
from notifier.domain.push.receipt import Accepted, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import Sending, Window
from notifier.domain.users.account_preferences import Asleep
from notifier.domain.users.visibility import pushable_awake
from notifier.ports.coordination import Clock
from notifier.ports.push import Post, Reply, Silence, Spare
from tests.support.fakes.directory import MemoryDirectory
from tests.support.fakes.people import MemoryPeople


@dataclass(slots=True)
class MemoryPaces:
    terms: Mapping[Platform, Terms] = field(default_factory=lambda: TERMS)
    paces: dict[Platform, Pace] = field(default_factory=dict)

    def wipe(self) -> None:
        self.paces.clear()

    def draw(self, platform: Platform, wanted: int, *, urgent: bool, ease: float, now: datetime) -> int:
        current, terms = self.paces.get(platform), self.terms[platform]
        self.paces[platform], granted = drawn(current, terms, now, wanted, urgent=urgent, ease=ease)
        return granted

    def tell(self, platform: Platform, *, refused: int, slow: bool, now: datetime) -> None:
        current, terms = self.paces.get(platform), self.terms[platform]
        self.paces[platform] = told(current, terms, now, refused=refused, slow=slow)


@dataclass(slots=True)
class MemoryCaps:
    caps: CapLimits = field(default_factory=CapLimits)
    days: dict[Member, History] = field(default_factory=dict)

    def wipe(self) -> None:
        self.days.clear()

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        cause = CountedAlert.of(burst, tweet)
        rulings = {member: judged(self.days.get(member, ()), cause, now, self.caps) for member in people}
        for member, ruling in rulings.items():
            if ruling is Ruling.NEW:
                self.days[member] = spent(self.days.get(member, ()), cause, now, self.caps)
        return rulings


@dataclass(slots=True)
class MemoryTabReport:
    clock: Clock
    reports: dict[str, tuple[timedelta, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.reports.clear()

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self.reports[process] = p99, self.clock.now() + lasting

    def worst(self) -> timedelta | None:
        return max((p99 for p99, until in self.reports.values() if self.clock.now() < until), default=None)


@dataclass(slots=True)
class MemoryLineReport:
    clock: Clock
    reports: dict[str, tuple[LeftAlone, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.reports.clear()

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        self.reports[line] = left, self.clock.now() + lasting

    def told(self) -> Mapping[str, LeftAlone]:
        return {line: left for line, (left, until) in self.reports.items() if self.clock.now() < until}


# Phones: a provider for every platform that records alerts in the order of arrival.

SOON = timedelta(seconds=10)


class MemoryPhones:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.arrived: list[tuple[Alert, Device]] = []
        self.away = False
        """Every alert is to be retried while this is true."""
        self.answers: dict[DeviceId, list[Receipt]] = defaultdict(list)
        """Next answers for each device, then it accepts. An alert answered as unknown has arrived."""

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        for device in devices:
            yield device, self.ring(alert, device)

    def ring(self, alert: Alert, device: Device) -> Receipt:
        if self.away:
            return RetryAt(at=self._clock.now() + SOON, reason="away, for a test")
        receipt = self.answers[device.id].pop(0) if self.answers[device.id] else Accepted()
        if isinstance(receipt, (Accepted, Unknown)):
            self.arrived.append((alert, device))
        return receipt


# Send log.


class MemorySent:
    def __init__(self) -> None:
        self.windows: dict[Sending, dict[int, Window]] = defaultdict(dict)
        """Batches by number."""

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        wanted = set(shards)
        return {
            sending: [windows[n] for n in sorted(windows)]
            for sending, windows in self.windows.items()
            if (sending.burst, sending.platform) == (burst, platform) and sending.shard in wanted and windows
        }

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        return [self._intend(sending, window) for sending, window in windows]

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        for sending, window in windows:
            if (intended := self.windows[sending].get(window.n)) is not None:
                self.windows[sending][window.n] = replace(intended, missed=window.missed)

    def _intend(self, sending: Sending, window: Window) -> bool:
        if window.n in self.windows[sending]:
            return False
        self.windows[sending][window.n] = replace(window, missed=None)
        return True


# Push suppression: deleted users, and users to which the predicate denies an alert.


class MemorySpared:
    def __init__(self, people: MemoryPeople, directory: MemoryDirectory) -> None:
        self._people = people
        self._directory = directory

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        known = [(member, viewer) for member, viewer in self._people.known().items() if shard_of(member) in shards]
        denied = [member for member, viewer in known if not pushable_awake(burst, viewer, now=now)]
        deleted = [member for member in self._directory.deleted() if shard_of(member) in shards]
        asleep = [
            (member, Asleep(until=until))
            for member, viewer in known
            if (until := viewer.overall.looked_for_at(burst, now)) is not None
        ]
        return spares(shards, chain(denied, deleted), asleep)


# A transport without a network, answered by a function.

Answering = Callable[[Post], Reply | Silence]


@dataclass(frozen=True, slots=True)
class MemoryTransport:
    answering: Answering

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        for post in posts:
            yield post, self.answering(post)
