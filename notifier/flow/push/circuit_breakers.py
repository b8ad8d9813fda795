"""Circuit breakers for push services that fail or reject our requests."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import urlsplit

from notifier.domain.backoff_due_times_alert_ages import is_due
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Member, Platform
from notifier.domain.push.batch_draft import Draft, SendAttempt
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
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import CircuitReport

LOGGER = logging.getLogger("notifier.push")

MAX_LINES = 256
"""Maximum lines with a stored breaker. Web Push has four services, but one of them uses dozens of host names."""
REPORT_INTERVAL = timedelta(seconds=5)
"""Interval of the reports of an open circuit. They are repeated, because Redis may have lost the last one."""


@dataclass(slots=True, kw_only=True)
class CircuitBreakers:
    """The breakers of one process, one for each line (see `line_of`)."""

    clock: Clock
    circuit_report: CircuitReport
    metrics: Metrics
    settings: BreakerSettings = field(default_factory=BreakerSettings)
    breakers_by_line: "OrderedDict[str, Breaker]" = field(default_factory=OrderedDict)
    """Breakers that are not closed, or have counted failures, by line. All other lines count as closed."""
    reported_at: dict[str, datetime] = field(default_factory=dict)
    """When each line with an open breaker, and each rejected group of devices, was last reported."""

    def retry_at(self, line: str) -> datetime | None:
        """Return when the line may be tried again; None if it may be tried now. Also report an open circuit, if due."""
        breaker, now = self.breakers_by_line.get(line, CLOSED), self.clock.now()
        self._report(line, breaker, now)
        until = retry_at(breaker, self.settings, now)
        return until if until > now else None

    def remaining_calls(self, line: str) -> int | None:
        """Return how many alerts the line's breaker lets through now; None means no limit."""
        return remaining_calls(self.breakers_by_line.get(line, CLOSED), self.settings, self.clock.now())

    def allow(self, line: str) -> bool:
        """Return whether one more alert may be sent. Its receipt must be passed to `record`."""
        breaker, allowed = allow(self.breakers_by_line.get(line, CLOSED), self.settings, self.clock.now())
        self._store(line, breaker)
        return allowed

    def record(self, line: str, receipt: Receipt) -> None:
        """Count the result of an alert. Log and report a circuit that opens."""
        before, now = self.breakers_by_line.get(line, CLOSED), self.clock.now()
        after = record(before, self.settings, _result_of(receipt), now)
        if isinstance(after, Open) and not isinstance(before, Open):
            pause = retry_at(after, self.settings, now) - now
            LOGGER.error("circuit opened for %s, next probe in %g s: %s", line, pause.total_seconds(), after.reason)
            self.metrics.circuits_opened.labels(provider_of(line)).inc()
            self.reported_at.pop(line, None)
        self._store(line, after)
        self._report(line, after, now)
        if isinstance(receipt, ConfigError) and receipt.device_group:
            self._report_device_group(f"{line} {receipt.device_group}", receipt, now)

    def _report_device_group(self, group: str, receipt: ConfigError, now: datetime) -> None:
        """Report that a provider rejects a group of devices, in the same way as an open circuit.

        No circuit is opened, because only a response shows whether a device belongs to the group.
        """
        if is_due(self.reported_at.get(group), self.settings.open_for, now):
            LOGGER.error("alerts to the device group %s are rejected: %s", group, receipt.reason)
            self.metrics.circuits_opened.labels(provider_of(group)).inc()
            self.reported_at[group] = now
            with suppress(CacheUnavailable):  # fails open: no alert depends on the report
                circuit = OpenCircuit(until=now + self.settings.open_for, reason=receipt.reason)
                self.circuit_report.publish(group, circuit, self.settings.open_for)

    def _report(self, line: str, breaker: Breaker, now: datetime) -> None:
        circuit = open_circuit(breaker, self.settings, now)
        if circuit is None or not is_due(self.reported_at.get(line), REPORT_INTERVAL, now):
            return
        self.reported_at[line] = now
        with suppress(CacheUnavailable):  # fails open: no alert depends on the report, and the log has it too
            self.circuit_report.publish(line, circuit, circuit.until - now)

    def _store(self, line: str, breaker: Breaker) -> None:
        if isinstance(breaker, Closed) and not breaker.failures:
            self.breakers_by_line.pop(line, None)
            self.reported_at.pop(line, None)
            return
        self.breakers_by_line[line] = breaker
        if len(self.breakers_by_line) > MAX_LINES:
            oldest, _ = self.breakers_by_line.popitem(last=False)
            self.reported_at.pop(oldest, None)


def line_of(device: Device) -> str:
    """Return the line that reaches a device: Apple, Apple's sandbox, Google, or the host of a browser's push service.

    Our key may be valid for only one of Apple's environments, but a device may claim either. With a line for each
    environment, alerts to the valid one continue.
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
    """The part of a send group that the circuit breakers let through."""

    drafts: Sequence[Draft]
    blocked_lines: frozenset[str] = frozenset()
    """Lines of the devices of the members that were left out."""


def admit(breakers: CircuitBreakers, drafts: Sequence[Draft]) -> Admission:
    """Leave out each member whose devices are all behind breakers that let no alert through.

    A first alert that is left out is in no batch. So the member later gets one summary of the missed bursts, and not
    one late alert per burst.
    """
    if not breakers.breakers_by_line:  # no line has failures: the usual case
        return Admission(drafts=drafts)
    remaining_by_line, all_blocked_lines = dict[str, int | None](), set[str]()
    admitted = list[Draft]()
    for draft in drafts:
        left_out = set[Member]()
        for member, attempts in groupby(draft.attempts, key=lambda attempt: attempt.state.member):
            if blocked_lines := _reserve_calls(breakers, remaining_by_line, list(attempts)):
                left_out.add(member)
                all_blocked_lines |= blocked_lines
        admitted.append(draft.without(left_out))
    return Admission(
        drafts=[draft for draft in admitted if not draft.is_empty], blocked_lines=frozenset(all_blocked_lines)
    )


def _reserve_calls(
    breakers: CircuitBreakers, remaining_by_line: dict[str, int | None], attempts: Sequence[SendAttempt]
) -> frozenset[str]:
    """Take calls for a member's alerts from `remaining_by_line`. Return all lines of the member if none has calls left.

    The member is then left out. If only some lines have calls left, the member stays with all devices, and
    `CircuitBreakers.allow` holds back the alerts on the other lines.
    """
    lines = [line_of(attempt.device) for attempt in attempts]
    for line in lines:
        if line not in remaining_by_line:
            remaining_by_line[line] = breakers.remaining_calls(line)
    usable_lines = [line for line in lines if remaining_by_line[line] != 0]
    for line in usable_lines:
        if (remaining := remaining_by_line[line]) is not None:
            remaining_by_line[line] = max(0, remaining - 1)
    return frozenset() if usable_lines else frozenset(lines)
