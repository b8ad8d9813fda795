"""Send step: passes a batch's alerts to the provider and turns receipts into failed attempts."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import is_late
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import Platform
from notifier.domain.push.alert import Alert, burst_alert, summary_alert, with_renewed_ttl
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.draft import Draft, SendAttempt
from notifier.domain.push.receipt import DropToken, Receipt, RetryAt
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, failure_of, retry_or_give_up
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.devices.registry import DeviceRegistry
from notifier.flow.push.circuit_breakers import CircuitBreakers, line_of
from notifier.flow.push.rate_limiter import RateLimiter
from notifier.metrics import Metrics
from notifier.ports.coordination import Clock
from notifier.ports.push import Provider

URGENT_TIERS = (Tier.P0, Tier.P1)
"""Tiers of currently active members. For other tiers the device shows the alert without waking up for it."""
SLOW_RESPONSE = timedelta(seconds=1)
"""Limit for the first receipt of a batch. A slower provider is overloaded."""
ACCEPTED, CIRCUIT_OPEN = "accepted", "the circuit of its provider is open"

PlacedAttempt = tuple[int, SendAttempt]
"""An attempt with the index of its draft in the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSender:
    providers: Mapping[Platform, Provider]
    breakers: CircuitBreakers
    rate_limiters: Mapping[Platform, RateLimiter]
    device_registry: DeviceRegistry
    clock: Clock
    chance: Callable[[], float]
    metrics: Metrics

    def send(self, burst: Burst, drafts: Sequence[Draft], lease: SliceLease) -> Sequence[Sequence[FailedAttempt]]:
        """Send every attempt of the drafts, whose windows are already written; return the failed attempts by draft.

        Raises ClaimLost if the lease is lost meanwhile: then another worker finds these windows in doubt.
        """
        failed = [self._unsent(draft) for draft in drafts]
        began, first_receipt_at, refused = self.clock.now(), None, 0
        rejected = dict[Device, datetime | None]()
        for text, attempts in self._by_alert(burst, drafts).items():
            for place, attempt, receipt in self._receipts(text, attempts):
                lease.renew_if_due()
                first_receipt_at = first_receipt_at or self.clock.now()
                if isinstance(receipt, DropToken):
                    rejected[attempt.device] = receipt.at
                refused += isinstance(receipt, RetryAt) and not receipt.is_device_only
                if (failure := self._record_receipt(burst, attempt, receipt)) is not None:
                    failed[place].append(failure)
        with suppress(*OUTAGES):  # fails open: the next alert to the device gets the same receipt
            self.device_registry.remove_rejected(rejected)
        if first_receipt_at is not None:
            # A provider that asks for later retries, or answers slowly, gets a lower rate.
            slow, platform = first_receipt_at - began > SLOW_RESPONSE, drafts[0].log_key.platform
            self.rate_limiters[platform].report_results(self.clock.now(), refused=refused, slow=slow)
        return failed

    def _unsent(self, draft: Draft) -> list[FailedAttempt]:
        failures = [*draft.unsent()]
        for failure in failures:
            self.metrics.receipts.labels(draft.log_key.platform, failure.outcome).inc()
        return failures

    def _by_alert(self, burst: Burst, drafts: Sequence[Draft]) -> Mapping[Alert, Mapping[DeviceId, PlacedAttempt]]:
        """Group the attempts by alert, because a provider renders each alert once."""
        attempts_by_alert = defaultdict[Alert, dict[DeviceId, PlacedAttempt]](dict)
        alerts: dict[int, Alert] = {}
        now = self.clock.now()
        late = is_late(burst, now)
        for place, draft in enumerate(drafts):
            urgent = draft.log_key.tier in URGENT_TIERS
            for attempt in draft.attempts:
                covered = attempt.state.covered_bursts
                if covered not in alerts:
                    text = (
                        summary_alert(burst, covered)
                        if covered > 1
                        else burst_alert(burst, urgent=urgent and not covered and not late)
                    )
                    alerts[covered] = with_renewed_ttl(text, now) if late else text
                attempts_by_alert[alerts[covered]][attempt.device.id] = place, attempt
        return attempts_by_alert

    def _receipts(
        self, text: Alert, attempts: Mapping[DeviceId, PlacedAttempt]
    ) -> Iterator[tuple[int, SendAttempt, Receipt | None]]:
        """Yield each attempt with its receipt, or with None if an open breaker held it back."""
        held_back = dict(attempts)

        def admitted() -> Iterator[Device]:
            # The breaker is asked per device as the provider has room: new receipts may have opened it meanwhile.
            for _, attempt in attempts.values():
                if self.breakers.allow(line_of(attempt.device)):
                    del held_back[attempt.device.id]
                    yield attempt.device

        [platform] = {attempt.device.platform for _, attempt in attempts.values()}
        for device, receipt in self.providers[platform].send(text, admitted()):
            self.breakers.record(line_of(device), receipt)
            yield *attempts[device.id], receipt
        yield from ((place, attempt, None) for place, attempt in held_back.values())

    def _record_receipt(self, burst: Burst, attempt: SendAttempt, receipt: Receipt | None) -> FailedAttempt | None:
        now = self.clock.now()
        if receipt is None:
            until = self.breakers.retry_at(line_of(attempt.device)) or now + self.breakers.settings.open_for
            failure: FailedAttempt | None = retry_or_give_up(attempt.state, AlertOutcome.HELD, until, CIRCUIT_OPEN)
        else:
            failure = failure_of(attempt.state, receipt, now, self.chance())
        platform = attempt.device.platform
        self.metrics.receipts.labels(platform, failure.outcome if failure else ACCEPTED).inc()
        if (
            failure is None and not attempt.state.failures and not attempt.state.covered_bursts
        ):  # quiet hours do not count as latency
            self.metrics.push_latency.labels(platform).observe((now - burst.accepted_at).total_seconds())
        return failure
