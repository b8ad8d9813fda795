"""A provider outage of an hour affects only the alerts of that provider."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Receipt, Unknown
from notifier.domain.push.send_log import MAX_ALERT_ATTEMPTS, AlertOutcome
from notifier.ports.push import Provider
from tests.flow.alerts_of_one_user import KIM, alert_sizes, member, use_providers, with_apple
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

INTERVAL, MENTIONS = timedelta(minutes=15), 4
"""One hour of mentions, within the hourly frequency cap."""
PROMPT_SECONDS = 5
SOON = timedelta(seconds=40)
"""Covers a circuit breaker's wait and one round."""


@dataclass(slots=True)
class TimingOut:
    """Accepts requests and never answers; no alert arrives."""

    provider: Provider
    stalls: bool = True
    attempts: Counter[Member] = field(default_factory=Counter)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        if not self.stalls:
            yield from self.provider.send(alert, devices)
            return
        for device in devices:
            self.attempts[device.member] += 1
            yield device, Unknown(reason="no response in time")


def test_provider_outage_of_an_hour_affects_only_its_own_alerts() -> None:
    stage = Stage()
    google = TimingOut(stage.state.phones)
    use_providers(stage, Platform.APNS, Platform.FCM)
    stage.ports = replace(stage.ports, providers={**stage.ports.providers, Platform.FCM: google})
    with_apple(stage)
    for n in range(1, MENTIONS + 1):
        opened = stage.state.clock.now()
        stage.mention("nova", of=f"t{n}")
        for _ in range(PROMPT_SECONDS):
            stage.dispatch()
            stage.work()
            stage.pass_time(seconds=1)
        assert alert_sizes(stage, on=Platform.APNS) == [1] * n
        assert member(stage) in stage.reached()
        assert run_sync(stage.uncached_inbox().badge(KIM)).count == n
        _run_until(stage, opened + INTERVAL)
    assert 0 < google.attempts[member(stage)] <= MAX_ALERT_ATTEMPTS * MENTIONS
    assert alert_sizes(stage) == []
    assert [_last_outcome(stage, burst) for burst in stage.bursts()] == [AlertOutcome.GIVEN_UP] * MENTIONS
    assert stage.state.ledger.unfinished_or_deferred() == []
    google.stalls = False
    stage.mention("nova", of="t9")
    _run_until(stage, stage.state.clock.now() + SOON)
    assert alert_sizes(stage) == [1]


def _last_outcome(stage: Stage, burst: BurstKey) -> AlertOutcome:
    """Return the last outcome of Kim's alert by the provider that times out."""
    batches = [batch for log in stage.state.send_log.read(burst, Platform.FCM, [0]).values() for batch in log]
    missed = [failure for batch in batches for failure in batch.failures or ()]
    return [failure.outcome for failure in missed if failure.state.member == member(stage)][-1]


def _run_until(stage: Stage, until: datetime) -> None:
    while stage.state.clock.now() < until:
        stage.dispatch()
        stage.work()
        stage.pass_time(seconds=5)
