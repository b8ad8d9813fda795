"""In-memory rate limits, frequency caps, reports, phones, send log and push suppression."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain

from notifier.codec.devices_send_log_suppressions import suppression_by_shard
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.circuit_breaker import OpenCircuit
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.frequency_cap import AlertCause, AlertHistory, CapLimits, Ruling, ruling_on, with_alert
from notifier.domain.push.rate_limit import PROVIDER_LIMITS, ProviderLimit, ProviderRate, draw, report_results
from notifier.domain.push.receipt import Accepted, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import SendBatch, SendLogKey
from notifier.domain.users.account_preferences import AlertDeferred
from notifier.domain.users.visibility import may_push_after_quiet_hours
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Post, PushSuppression, Reply
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople


@dataclass(slots=True)
class MemoryProviderRates:
    limits: Mapping[Platform, ProviderLimit] = field(default_factory=lambda: PROVIDER_LIMITS)
    rates: dict[Platform, ProviderRate] = field(default_factory=dict)

    def wipe(self) -> None:
        self.rates.clear()

    def draw(self, platform: Platform, wanted: int, *, is_p0: bool, slowdown_factor: float, now: datetime) -> int:
        current, limit = self.rates.get(platform), self.limits[platform]
        self.rates[platform], granted = draw(current, limit, now, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor)
        return granted

    def report_results(self, platform: Platform, *, refused_count: int, is_slow: bool, now: datetime) -> None:
        current, limit = self.rates.get(platform), self.limits[platform]
        self.rates[platform] = report_results(current, limit, now, refused_count=refused_count, is_slow=is_slow)


@dataclass(slots=True)
class MemoryFrequencyCaps:
    caps: CapLimits = field(default_factory=CapLimits)
    histories: dict[Member, AlertHistory] = field(default_factory=dict)

    def wipe(self) -> None:
        self.histories.clear()

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        cause = AlertCause.of(burst, tweet)
        rulings = {member: ruling_on(self.histories.get(member, ()), cause, now, self.caps) for member in people}
        for member, ruling in rulings.items():
            if ruling is Ruling.NEW:
                self.histories[member] = with_alert(self.histories.get(member, ()), cause, now, self.caps)
        return rulings


@dataclass(slots=True)
class MemoryInboxLatencyReport:
    clock: Clock
    reports: dict[str, tuple[timedelta, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.reports.clear()

    def publish(self, process: str, p99: timedelta, ttl: timedelta) -> None:
        self.reports[process] = p99, self.clock.now() + ttl

    def worst(self) -> timedelta | None:
        return max((p99 for p99, until in self.reports.values() if self.clock.now() < until), default=None)


@dataclass(slots=True)
class MemoryCircuitReport:
    clock: Clock
    reports: dict[str, tuple[OpenCircuit, datetime]] = field(default_factory=dict)

    def wipe(self) -> None:
        self.reports.clear()

    def publish(self, line: str, circuit: OpenCircuit, ttl: timedelta) -> None:
        self.reports[line] = circuit, self.clock.now() + ttl

    def read(self) -> Mapping[str, OpenCircuit]:
        return {line: circuit for line, (circuit, until) in self.reports.items() if self.clock.now() < until}


# Phones: a provider for every platform that records alerts in the order of arrival.

SOON = timedelta(seconds=10)


class MemoryProvider:
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


class MemorySendLog:
    def __init__(self) -> None:
        self.batches: dict[SendLogKey, dict[int, SendBatch]] = defaultdict(dict)
        """Batches by number."""

    def read(
        self, burst: BurstKey, platform: Platform, shards: Collection[int]
    ) -> Mapping[SendLogKey, Sequence[SendBatch]]:
        wanted = set(shards)
        return {
            key: [batches[n] for n in sorted(batches)]
            for key, batches in self.batches.items()
            if (key.burst, key.platform) == (burst, platform) and key.shard in wanted and batches
        }

    def write_ahead(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> Sequence[bool]:
        return [self._write_ahead(key, batch) for key, batch in batches]

    def close(self, batches: Sequence[tuple[SendLogKey, SendBatch]]) -> None:
        for key, batch in batches:
            if (stored := self.batches[key].get(batch.number)) is not None:
                self.batches[key][batch.number] = replace(stored, failures=batch.failures)

    def _write_ahead(self, key: SendLogKey, batch: SendBatch) -> bool:
        if batch.number in self.batches[key]:
            return False
        self.batches[key][batch.number] = replace(batch, failures=None)
        return True


# Push suppression: deleted users, and users to which the predicate denies an alert.


class MemoryPushSuppressions:
    def __init__(self, people: MemoryPeople, directory: MemoryDirectory) -> None:
        self._people = people
        self._directory = directory

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        known = [(member, viewer) for member, viewer in self._people.known().items() if shard_of(member) in shards]
        denied = [member for member, viewer in known if not may_push_after_quiet_hours(burst, viewer, now=now)]
        deleted = [member for member in self._directory.deleted() if shard_of(member) in shards]
        asleep = [
            (member, AlertDeferred(until=until))
            for member, viewer in known
            if (until := viewer.account_preferences.alert_time_after_quiet(burst, now)) is not None
        ]
        return suppression_by_shard(shards, chain(denied, deleted), asleep)


# A transport without a network, answered by a function.

Answer = Callable[[Post], Reply | NoReply]


@dataclass(frozen=True, slots=True)
class MemoryTransport:
    answer: Answer

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        for post in posts:
            yield post, self.answer(post)
