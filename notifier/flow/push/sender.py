"""Send step: hands the alerts of a batch to the provider and turns its receipts into what failed."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import stale
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import Platform
from notifier.domain.push.alert import Alert, alert, summary, told_late
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.draft import Draft, SendAttempt
from notifier.domain.push.receipt import DropToken, Receipt, RetryAt
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, later, missed
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.devices.registry import PhoneBook
from notifier.flow.push.circuit_breakers import CircuitBreakers, line_of
from notifier.flow.push.rate_limiter import Pacing
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.push import Provider

URGENT = (Tier.P0, Tier.P1)
"""Members who are around now; the devices of others show the alert without waking for it."""
SLOW = timedelta(seconds=1)
"""For the first receipt of a batch: then a provider has more than it can take."""
ACCEPTED, CIRCUIT_OPEN = "accepted", "its provider is left alone for a while"

Placed = tuple[int, SendAttempt]
"""An attempt with the place of its draft in the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSender:
    providers: Mapping[Platform, Provider]
    breakers: CircuitBreakers
    pacing: Mapping[Platform, Pacing]
    book: PhoneBook
    clock: Clock
    chance: Callable[[], float]
    metrics: Metrics

    def send(self, burst: Burst, drafts: Sequence[Draft], lease: SliceLease) -> Sequence[Sequence[FailedAttempt]]:
        """Send every attempt of the drafts, whose windows are written. Returns for each draft what was not accepted.

        Raises LostClaim if the lease is lost meanwhile: then another worker finds these windows in doubt.
        """
        failed = [self._unsent(draft) for draft in drafts]
        began, first_receipt_at, refused = self.clock.now(), None, 0
        gone = dict[Device, datetime | None]()
        for text, attempts in self._by_alert(burst, drafts).items():
            for place, attempt, receipt in self._receipts(text, attempts):
                lease.going()
                first_receipt_at = first_receipt_at or self.clock.now()
                if isinstance(receipt, DropToken):
                    gone[attempt.device] = receipt.at
                refused += isinstance(receipt, RetryAt) and not receipt.alone
                if (one := self._judge(burst, attempt, receipt)) is not None:
                    failed[place].append(one)
        with suppress(*OUTAGES):  # fails open: the next alert finds out again
            self.book.drop(gone)
        if first_receipt_at is not None:
            # A provider that asks for later retries, or is slow to answer, gets less.
            slow, platform = first_receipt_at - began > SLOW, drafts[0].sending.platform
            self.pacing[platform].tell(self.clock.now(), refused=refused, slow=slow)
        return failed

    def _unsent(self, draft: Draft) -> list[FailedAttempt]:
        found = [*draft.unsent()]
        for one in found:
            self.metrics.receipts.labels(draft.sending.platform, one.fate).inc()
        return found

    def _by_alert(self, burst: Burst, drafts: Sequence[Draft]) -> Mapping[Alert, Mapping[DeviceId, Placed]]:
        """Group the attempts by what the device shows: a provider renders each alert once."""
        found = defaultdict[Alert, dict[DeviceId, Placed]](dict)
        alerts: dict[int, Alert] = {}
        now = self.clock.now()
        late = stale(burst, now)
        for place, draft in enumerate(drafts):
            urgent = draft.sending.tier in URGENT
            for attempt in draft.attempts:
                away = attempt.tried.away
                if away not in alerts:
                    one = summary(burst, away) if away > 1 else alert(burst, urgent=urgent and not away and not late)
                    alerts[away] = told_late(one, now) if late else one
                found[alerts[away]][attempt.device.id] = place, attempt
        return found

    def _receipts(
        self, text: Alert, attempts: Mapping[DeviceId, Placed]
    ) -> Iterator[tuple[int, SendAttempt, Receipt | None]]:
        """Yield each attempt with its receipt, or with None if an open breaker held it back."""
        held_back = dict(attempts)

        def admitted() -> Iterator[Device]:
            # Asked device by device, as the provider has room: receipts that came meanwhile may have opened a breaker.
            for _, attempt in attempts.values():
                if self.breakers.allow(line_of(attempt.device)):
                    del held_back[attempt.device.id]
                    yield attempt.device

        [platform] = {attempt.device.platform for _, attempt in attempts.values()}
        for device, receipt in self.providers[platform].send(text, admitted()):
            self.breakers.record(line_of(device), receipt)
            yield *attempts[device.id], receipt
        yield from ((place, attempt, None) for place, attempt in held_back.values())

    def _judge(self, burst: Burst, attempt: SendAttempt, receipt: Receipt | None) -> FailedAttempt | None:
        now = self.clock.now()
        if receipt is None:
            until = self.breakers.retry_at(line_of(attempt.device)) or now + self.breakers.settings.rest
            one: FailedAttempt | None = later(attempt.tried, AlertOutcome.HELD, until, CIRCUIT_OPEN)
        else:
            one = missed(attempt.tried, receipt, now, self.chance())
        platform = attempt.device.platform
        self.metrics.receipts.labels(platform, one.fate if one else ACCEPTED).inc()
        if one is None and not attempt.tried.tries and not attempt.tried.away:  # quiet hours don't count as slow
            self.metrics.push.labels(platform).observe((now - burst.accepted_at).total_seconds())
        return one
