"""Send step: passes alerts to the provider; turns receipts into failed attempts."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import is_late
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import Platform
from notifier.domain.push.alert import Alert, burst_alert, summary_alert, with_renewed_ttl
from notifier.domain.push.batch_draft import Draft, SendAttempt
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.receipt import DropDevice, Receipt, RetryAt
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, failure_of, retry_or_give_up
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.flow.push.circuit_breakers import CircuitBreakers, line_of
from notifier.flow.push.rate_limiter import RateLimiter
from notifier.metrics import Metrics
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import Provider

URGENT_TIERS = (Tier.P0, Tier.P1)
"""Tiers whose alerts may wake up a device."""
MAX_RECEIPT_DELAY = timedelta(seconds=1)
"""Delay of the first receipt of a send group above which the provider counts as slow."""
ACCEPTED_OUTCOME, CIRCUIT_OPEN_REASON = "accepted", "its circuit breaker was open"

IndexedAttempt = tuple[int, SendAttempt]
"""Index of a draft in the send group, and one of the draft's attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSender:
    providers: Mapping[Platform, Provider]
    breakers: CircuitBreakers
    rate_limiters: Mapping[Platform, RateLimiter]
    device_registry: DeviceRegistry
    clock: Clock
    random: Callable[[], float]
    """Returns a random number in [0, 1), which spreads the retries."""
    metrics: Metrics

    def send(self, burst: Burst, drafts: Sequence[Draft], lease: SliceLease) -> Sequence[Sequence[FailedAttempt]]:
        """Send a group of drafts whose batches are written. Return each draft's failed attempts.

        Raises ClaimLost if the lease is lost meanwhile. Then another worker finds the batches in doubt.
        """
        failed = [self._unsent_attempts(draft) for draft in drafts]
        began_at, first_receipt_at, refused_count = self.clock.now(), None, 0
        rejected_devices = dict[Device, datetime | None]()
        for alert, attempts in self._by_alert(burst, drafts).items():
            for index, attempt, receipt in self._send_alert(alert, attempts):
                lease.renew_if_due()
                first_receipt_at = first_receipt_at or self.clock.now()
                if isinstance(receipt, DropDevice):
                    rejected_devices[attempt.device] = receipt.at
                refused_count += isinstance(receipt, RetryAt) and not receipt.is_device_only
                if (failure := self._record_receipt(burst, attempt, receipt)) is not None:
                    failed[index].append(failure)
        with suppress(*OUTAGES):  # fails open: a later alert to the device gets the same receipt
            self.device_registry.remove_rejected(rejected_devices)
        if first_receipt_at is not None:
            # A provider that asks for later retries, or answers slowly, gets a lower rate.
            is_slow, platform = first_receipt_at - began_at > MAX_RECEIPT_DELAY, drafts[0].log_key.platform
            self.rate_limiters[platform].report_results(self.clock.now(), refused_count=refused_count, is_slow=is_slow)
        return failed

    def _unsent_attempts(self, draft: Draft) -> list[FailedAttempt]:
        """Return the draft's attempts that have a result without being sent, and count them in the metrics."""
        failures = [*draft.results_without_sending()]
        for failure in failures:
            self.metrics.receipts.labels(draft.log_key.platform, failure.outcome).inc()
        return failures

    def _by_alert(self, burst: Burst, drafts: Sequence[Draft]) -> Mapping[Alert, Mapping[DeviceId, IndexedAttempt]]:
        """Group the attempts by alert, so that devices share its payloads."""
        attempts_by_alert = defaultdict[Alert, dict[DeviceId, IndexedAttempt]](dict)
        alert_by_late_burst_count: dict[int, Alert] = {}
        now = self.clock.now()
        late = is_late(burst, now)
        for index, draft in enumerate(drafts):
            is_urgent_tier = draft.log_key.tier in URGENT_TIERS
            for attempt in draft.attempts:
                late_burst_count = attempt.state.late_burst_count
                if late_burst_count not in alert_by_late_burst_count:
                    if late_burst_count > 1:
                        alert = summary_alert(burst, late_burst_count)
                    else:
                        alert = burst_alert(burst, urgent=is_urgent_tier and not late_burst_count and not late)
                    alert_by_late_burst_count[late_burst_count] = with_renewed_ttl(alert, now) if late else alert
                attempts_by_alert[alert_by_late_burst_count[late_burst_count]][attempt.device.id] = index, attempt
        return attempts_by_alert

    def _send_alert(
        self, alert: Alert, attempts: Mapping[DeviceId, IndexedAttempt]
    ) -> Iterator[tuple[int, SendAttempt, Receipt | None]]:
        """Send the alert to each device. Yield each attempt with its receipt; None if a breaker held it back."""
        held_back = dict(attempts)

        def admitted() -> Iterator[Device]:
            # The provider takes a device when it has room. Ask the breaker only then, because an earlier receipt may
            # have opened it.
            for _, attempt in attempts.values():
                if self.breakers.allow(line_of(attempt.device)):
                    del held_back[attempt.device.id]
                    yield attempt.device

        [platform] = {attempt.device.platform for _, attempt in attempts.values()}
        for device, receipt in self.providers[platform].send(alert, admitted()):
            self.breakers.record(line_of(device), receipt)
            yield *attempts[device.id], receipt
        yield from ((index, attempt, None) for index, attempt in held_back.values())

    def _record_receipt(self, burst: Burst, attempt: SendAttempt, receipt: Receipt | None) -> FailedAttempt | None:
        now = self.clock.now()
        if receipt is None:
            until = self.breakers.retry_at(line_of(attempt.device)) or now + self.breakers.settings.open_for
            failure: FailedAttempt | None = retry_or_give_up(
                attempt.state, AlertOutcome.HELD, until, CIRCUIT_OPEN_REASON
            )
        else:
            failure = failure_of(attempt.state, receipt, now, self.random())
        platform = attempt.device.platform
        self.metrics.receipts.labels(platform, failure.outcome if failure else ACCEPTED_OUTCOME).inc()
        # Measure only first attempts that were drafted in time: waiting for retries or quiet hours is no latency.
        if failure is None and not attempt.state.failed_attempts and not attempt.state.late_burst_count:
            self.metrics.push_latency.labels(platform).observe((now - burst.accepted_at).total_seconds())
        return failure
