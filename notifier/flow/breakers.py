"""The breakers: who refuses us, or doesn't answer, is left alone for a while; each line to a provider has its own."""

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from notifier.domain.breaker import (
    CLOSED,
    Breaker,
    Closed,
    Failed,
    Misconfigured,
    Open,
    Succeeded,
    Terms,
    Told,
    again_at,
    asked,
    told,
)
from notifier.domain.device import Device, Platform, WebSubscription
from notifier.domain.receipt import ConfigError, Receipt, RetryAt, Unknown
from notifier.ports.clock import Clock
from notifier.telemetry import Metrics

LOGGER = logging.getLogger("notifier.push")

LINES = 256
"""Push services that are remembered; there are four, and Windows has some dozens of names."""


@dataclass(slots=True, kw_only=True)
class Breakers:
    """One process's. A process that starts anew learns what the last one knew from a few tries."""

    clock: Clock
    metrics: Metrics
    terms: Terms = field(default_factory=Terms)
    lines: "OrderedDict[str, Breaker]" = field(default_factory=OrderedDict)

    def rests_until(self, line: str) -> datetime | None:
        """None where somebody may be let through now."""
        now = self.clock.now()
        until = again_at(self.lines.get(line, CLOSED), self.terms, now)
        return until if until > now else None

    def asks(self, line: str) -> bool:
        """Whether one more may be sent; what comes of it has to be told."""
        after, may = asked(self.lines.get(line, CLOSED), self.terms, self.clock.now())
        self._keep(line, after)
        return may

    def tells(self, line: str, receipt: Receipt) -> None:
        before = self.lines.get(line, CLOSED)
        after = told(before, self.terms, _what(receipt), self.clock.now())
        if isinstance(after, Open) and not isinstance(before, Open):
            LOGGER.error("No alerts by %s for %g s: %s", line, self.terms.rest.total_seconds(), after.reason)
            self.metrics.broken.labels(line_class(line)).inc()
        self._keep(line, after)

    def _keep(self, line: str, breaker: Breaker) -> None:
        if isinstance(breaker, Closed) and not breaker.failures:
            self.lines.pop(line, None)
            return
        self.lines[line] = breaker
        if len(self.lines) > LINES:
            self.lines.popitem(last=False)


def line_of(device: Device) -> str:
    """Apple's and Google's servers are one line each; of push services each host is one."""
    if isinstance(device.address, WebSubscription):
        return f"{Platform.WEB} {urlsplit(device.address.endpoint).netloc}"
    return device.platform


def line_class(line: str) -> str:
    return line.partition(" ")[0]


def _what(receipt: Receipt) -> Told:
    match receipt:
        case ConfigError(reason=reason):
            return Misconfigured(reason=reason)
        case RetryAt(reason=reason) | Unknown(reason=reason):
            return Failed(reason=reason)
        case _:
            return Succeeded()
