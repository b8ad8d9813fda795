"""The reachable: whoever has a device that may be sent to now; the others stay out of windows until a line is back.

Providers are one line, but each push service has a breaker of its own, and a window holds browsers of all of them. Who
was noted as on the way, and then held back, would be told of each burst singly; who is in no window is told of all that
came meanwhile as one.
"""

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
    Closed,
    Failed,
    LeftAlone,
    Misconfigured,
    Open,
    Succeeded,
    Terms,
    Told,
    again_at,
    asked,
    left_alone,
    line_class,
    room,
    told,
)
from notifier.domain.push.device import AppleToken, Device, Environment, WebSubscription
from notifier.domain.push.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.domain.timing import due
from notifier.flow.push.batches import Call, Part
from notifier.metrics import Metrics
from notifier.ports.clock import Clock
from notifier.ports.push import LineReport

# The breakers: who refuses us, or doesn't answer, is left alone for a while; each line to a provider has its own.

LOGGER = logging.getLogger("notifier.push")

LINES = 256
"""Push services that are remembered; there are four, and Windows has some dozens of names."""
REPORTED_EVERY = timedelta(seconds=5)
"""While somebody asks: a Redis that was emptied knows again soon."""


@dataclass(slots=True, kw_only=True)
class Breakers:
    """One process's. A process that starts anew learns what the last one knew from a few tries."""

    clock: Clock
    report: LineReport
    metrics: Metrics
    terms: Terms = field(default_factory=Terms)
    lines: "OrderedDict[str, Breaker]" = field(default_factory=OrderedDict)
    reported: dict[str, datetime] = field(default_factory=dict)
    """When, of those that aren't closed; and of some of a line's that are refused while it is well."""

    def rests_until(self, line: str) -> datetime | None:
        """None where somebody may be let through now."""
        breaker, now = self.lines.get(line, CLOSED), self.clock.now()
        self._report(line, breaker, now)
        until = again_at(breaker, self.terms, now)
        return until if until > now else None

    def room(self, line: str) -> int | None:
        """How many may be let through now; None where nobody counts them."""
        return room(self.lines.get(line, CLOSED), self.terms, self.clock.now())

    def asks(self, line: str) -> bool:
        """Whether one more may be sent; what comes of it has to be told."""
        after, may = asked(self.lines.get(line, CLOSED), self.terms, self.clock.now())
        self._keep(line, after)
        return may

    def tells(self, line: str, receipt: Receipt) -> None:
        before, now = self.lines.get(line, CLOSED), self.clock.now()
        after = told(before, self.terms, _what(receipt), now)
        if isinstance(after, Open) and not isinstance(before, Open):
            rest = again_at(after, self.terms, now) - now
            LOGGER.error("No alerts by %s for %g s: %s", line, rest.total_seconds(), after.reason)
            self.metrics.broken.labels(line_class(line)).inc()
            self.reported.pop(line, None)
        self._keep(line, after)
        self._report(line, after, now)
        if isinstance(receipt, ConfigError) and receipt.part:
            self._tell_of_some(f"{line} {receipt.part}", receipt, now)

    def _tell_of_some(self, part: str, receipt: ConfigError, now: datetime) -> None:
        """As if their line had opened, though nobody is left alone: who is one of them is known by the answer alone."""
        if due(self.reported.get(part), self.terms.rest, now):
            LOGGER.error("Some alerts are refused, %s: %s", part, receipt.reason)
            self.metrics.broken.labels(line_class(part)).inc()
            self.reported[part] = now
            with suppress(CacheUnavailable):  # fails open, as below
                left = LeftAlone(until=now + self.terms.rest, reason=receipt.reason)
                self.report.tell(part, left, self.terms.rest)

    def _report(self, line: str, breaker: Breaker, now: datetime) -> None:
        left = left_alone(breaker, self.terms, now)
        if left is None or not due(self.reported.get(line), REPORTED_EVERY, now):
            return
        self.reported[line] = now
        with suppress(CacheUnavailable):  # fails open: who watches learns of it a little later, or by the log
            self.report.tell(line, left, left.until - now)

    def _keep(self, line: str, breaker: Breaker) -> None:
        if isinstance(breaker, Closed) and not breaker.failures:
            self.lines.pop(line, None)
            self.reported.pop(line, None)
            return
        self.lines[line] = breaker
        if len(self.lines) > LINES:
            oldest, _ = self.lines.popitem(last=False)
            self.reported.pop(oldest, None)


def line_of(device: Device) -> str:
    """Apple's and Google's servers are one line each; of push services each host is one.

    Apple's sandbox is a line of its own: a key may be good for one environment alone, and a device may say either. Who
    registers one of the other must not stop everybody's alerts.
    """
    match device.address:
        case WebSubscription(endpoint=endpoint):
            return f"{Platform.WEB} {urlsplit(endpoint).netloc}"
        case AppleToken(environment=Environment.SANDBOX):
            return f"{Platform.APNS} {Environment.SANDBOX}"
        case _:
            return device.platform


def _what(receipt: Receipt) -> Told:
    match receipt:
        case ConfigError(reason=reason, part=""):
            return Misconfigured(reason=reason)
        case RetryAt(alone=True):
            return Succeeded()
        case RetryAt(at=at, reason=reason):
            return Failed(reason=reason, until=at)
        case Unknown(reason=reason):
            return Failed(reason=reason)
        case _:
            return Succeeded()


@dataclass(slots=True, kw_only=True)
class Reachable:
    """Of one batch."""

    breakers: Breakers
    shut: set[str] = field(default_factory=set)
    """Lines for which somebody was left out."""
    _rooms: dict[str, int | None] = field(default_factory=dict)

    def __call__(self, parts: Sequence[Part]) -> Sequence[Part]:
        if not self.breakers.lines:  # nobody is in trouble: nearly always
            return parts
        kept = [part.without(self._left_out(part)) for part in parts]
        return [part for part in kept if not part.empty]

    def _left_out(self, part: Part) -> set[Member]:
        """Nobody's devices are parted: a line that is shut keeps back what is for it by itself."""
        out = set[Member]()
        for member, own in groupby(part.calls, key=lambda call: call.tried.member):
            if not self._lets(list(own)):
                out.add(member)
        return out

    def _lets(self, own: Sequence[Call]) -> bool:
        lines = [line_of(call.device) for call in own]
        roomy = [line for line in lines if self._room(line) != 0]
        for line in roomy:
            if (room := self._room(line)) is not None:
                self._rooms[line] = max(0, room - 1)
        if not roomy:
            self.shut.update(lines)
        return bool(roomy)

    def _room(self, line: str) -> int | None:
        if line not in self._rooms:
            self._rooms[line] = self.breakers.room(line)
        return self._rooms[line]
