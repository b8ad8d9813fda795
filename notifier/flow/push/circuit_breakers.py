"""Circuit breakers: stop sending to a push service that fails or rejects our requests."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import urlsplit

from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, Platform
from notifier.domain.push.circuit_breaker import (
    CLOSED,
    Breaker,
    BreakerSettings,
    Closed,
    Failed,
    LineResult,
    Misconfigured,
    Open,
    OpenCircuit,
    Succeeded,
    allow,
    open_circuit,
    provider_of,
    record,
    remaining_calls,
    retry_at,
)
from notifier.domain.push.device import ApnsEnvironment, AppleToken, Device, WebSubscription
from notifier.domain.push.draft import Draft, SendAttempt
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.domain.timing import is_due
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.push import CircuitReport

LOGGER = logging.getLogger("notifier.push")

MAX_LINES = 256
"""Push services that are remembered. There are four, but Windows uses some dozens of host names."""
REPORT_INTERVAL = timedelta(seconds=5)
"""An open circuit is reported again after this time, so that an emptied Redis knows it again soon."""


@dataclass(slots=True, kw_only=True)
class CircuitBreakers:
    """The breakers of one process, one per line. A new process learns the state from a few attempts."""

    clock: Clock
    circuit_report: CircuitReport
    metrics: Metrics
    settings: BreakerSettings = field(default_factory=BreakerSettings)
    lines: "OrderedDict[str, Breaker]" = field(default_factory=OrderedDict)
    """Breakers by line, without lines that are closed and have no failures."""
    reported: dict[str, datetime] = field(default_factory=dict)
    """When each open line was last reported, and each line that refuses only some devices."""

    def retry_at(self, line: str) -> datetime | None:
        """Return when the line may be tried again; None if it may be tried now."""
        breaker, now = self.lines.get(line, CLOSED), self.clock.now()
        self._report(line, breaker, now)
        until = retry_at(breaker, self.settings, now)
        return until if until > now else None

    def remaining_calls(self, line: str) -> int | None:
        """Return how many alerts the line lets through now; None if it does not limit them."""
        return remaining_calls(self.lines.get(line, CLOSED), self.settings, self.clock.now())

    def allow(self, line: str) -> bool:
        """Return whether one more alert may be sent. Its receipt must be passed to `record`."""
        after, allowed = allow(self.lines.get(line, CLOSED), self.settings, self.clock.now())
        self._store(line, after)
        return allowed

    def record(self, line: str, receipt: Receipt) -> None:
        before, now = self.lines.get(line, CLOSED), self.clock.now()
        after = record(before, self.settings, _result_of(receipt), now)
        if isinstance(after, Open) and not isinstance(before, Open):
            pause = retry_at(after, self.settings, now) - now
            LOGGER.error("circuit opened for %s, next probe in %g s: %s", line, pause.total_seconds(), after.reason)
            self.metrics.circuits_opened.labels(provider_of(line)).inc()
            self.reported.pop(line, None)
        self._store(line, after)
        self._report(line, after, now)
        if isinstance(receipt, ConfigError) and receipt.device_group:
            self._report_part(f"{line} {receipt.device_group}", receipt, now)

    def _report_part(self, part: str, receipt: ConfigError, now: datetime) -> None:
        """Report like an open circuit, but open none: only the response shows which devices are refused."""
        if is_due(self.reported.get(part), self.settings.open_for, now):
            LOGGER.error("some alerts are rejected, %s: %s", part, receipt.reason)
            self.metrics.circuits_opened.labels(provider_of(part)).inc()
            self.reported[part] = now
            with suppress(CacheUnavailable):  # fails open, as below
                circuit = OpenCircuit(until=now + self.settings.open_for, reason=receipt.reason)
                self.circuit_report.publish(part, circuit, self.settings.open_for)

    def _report(self, line: str, breaker: Breaker, now: datetime) -> None:
        circuit = open_circuit(breaker, self.settings, now)
        if circuit is None or not is_due(self.reported.get(line), REPORT_INTERVAL, now):
            return
        self.reported[line] = now
        with suppress(CacheUnavailable):  # fails open: no alert depends on the report, and the log has it too
            self.circuit_report.publish(line, circuit, circuit.until - now)

    def _store(self, line: str, breaker: Breaker) -> None:
        if isinstance(breaker, Closed) and not breaker.failures:
            self.lines.pop(line, None)
            self.reported.pop(line, None)
            return
        self.lines[line] = breaker
        if len(self.lines) > MAX_LINES:
            oldest, _ = self.lines.popitem(last=False)
            self.reported.pop(oldest, None)


def line_of(device: Device) -> str:
    """Return the line that reaches a device: one for Apple, one for Google, and one per host for browsers.

    Apple's sandbox has its own line: a key may be valid for only one environment, and a device may claim either. A
    device of the other environment must not stop the alerts of all others.
    """
    match device.address:
        case WebSubscription(endpoint=endpoint):
            return f"{Platform.WEB} {urlsplit(endpoint).netloc}"
        case AppleToken(environment=ApnsEnvironment.SANDBOX):
            return f"{Platform.APNS} {ApnsEnvironment.SANDBOX}"
        case _:
            return device.platform


def _result_of(receipt: Receipt) -> LineResult:
    match receipt:
        case ConfigError(reason=reason, device_group=""):
            return Misconfigured(reason=reason)
        case RetryAt(is_device_only=True):
            return Succeeded()
        case RetryAt(at=at, reason=reason):
            return Failed(reason=reason, until=at)
        case Unknown(reason=reason):
            return Failed(reason=reason)
        case _:
            return Succeeded()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The part of a batch that the circuit breakers let through."""

    drafts: Sequence[Draft]
    blocked: frozenset[str] = frozenset()
    """Lines that caused members to be left out."""


def admit(breakers: CircuitBreakers, drafts: Sequence[Draft]) -> Admission:
    """Leave out members all of whose devices are behind open breakers.

    A member recorded in a window and then held back would later get one alert per burst. A member in no window gets one
    summary of everything missed once the line recovers. Web push needs this most: each push service has its own
    breaker, and a window mixes browsers of all services.
    """
    if not breakers.lines:  # no line has failures: the usual case
        return Admission(drafts=drafts)
    rooms, blocked = dict[str, int | None](), set[str]()
    kept = list[Draft]()
    for draft in drafts:
        out = set[Member]()
        for member, own in groupby(draft.attempts, key=lambda attempt: attempt.state.member):
            if shut := _blocked_lines(breakers, rooms, list(own)):
                out.add(member)
                blocked |= shut
        kept.append(draft.without(out))
    return Admission(drafts=[draft for draft in kept if not draft.is_empty], blocked=frozenset(blocked))


def _blocked_lines(
    breakers: CircuitBreakers, rooms: dict[str, int | None], own: Sequence[SendAttempt]
) -> frozenset[str]:
    """Return the lines of a member's devices if none has room; otherwise take the member's share of the room.

    A member's devices stay together. If only some of their lines are open circuits, `allow` holds back those devices.
    """
    lines = [line_of(attempt.device) for attempt in own]
    for line in lines:
        if line not in rooms:
            rooms[line] = breakers.remaining_calls(line)
    roomy = [line for line in lines if rooms[line] != 0]
    for line in roomy:
        if (left := rooms[line]) is not None:
            rooms[line] = max(0, left - 1)
    return frozenset() if roomy else frozenset(lines)
