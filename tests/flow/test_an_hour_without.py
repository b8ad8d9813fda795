"""One provider answers nobody for an hour: rows, badges and the others' alerts are as ever, and so is all behind it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Receipt, Unknown
from notifier.domain.push.send_log import TRIES, AlertOutcome
from notifier.ports.push import Provider
from tests.flow.quiet_hours import KIM, alert_sizes, member, use_providers, with_apple
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import driven

EVERY, MENTIONS = timedelta(minutes=15), 4
"""An hour, and no more alerts in it than anybody may get."""
AT_ONCE = 5
"""Seconds."""
SOON = timedelta(seconds=40)
"""A breaker's rest, and a turn."""


@dataclass(slots=True)
class Stalling:
    """Takes connections, and answers nobody; nothing arrives."""

    phones: Provider
    stalls: bool = True
    asked: Counter[Member] = field(default_factory=Counter)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        if not self.stalls:
            yield from self.phones.send(alert, devices)
            return
        for device in devices:
            self.asked[device.member] += 1
            yield device, Unknown(reason="no answer in time")


def test_a_provider_that_stalls_for_an_hour_keeps_back_its_own_alerts_alone() -> None:
    stage = Stage()
    google = Stalling(stage.ground.phones)
    use_providers(stage, Platform.APNS, Platform.FCM)
    stage.ports = replace(stage.ports, providers={**stage.ports.providers, Platform.FCM: google})
    with_apple(stage)
    for n in range(1, MENTIONS + 1):
        opened = stage.ground.clock.now()
        stage.mention("nova", of=f"t{n}")
        for _ in range(AT_ONCE):
            stage.dispatch()
            stage.work()
            stage.pass_time(seconds=1)
        assert alert_sizes(stage, on=Platform.APNS) == [1] * n
        assert member(stage) in stage.reached()
        assert driven(stage.tab().badge(KIM)).count == n
        _pass(stage, opened + EVERY)
    assert 0 < google.asked[member(stage)] <= TRIES * MENTIONS
    assert alert_sizes(stage) == []
    assert [_last(stage, burst) for burst in stage.bursts()] == [AlertOutcome.GIVEN_UP] * MENTIONS
    assert stage.ground.ledger.unsettled() == []
    google.stalls = False
    stage.mention("nova", of="t9")
    _pass(stage, stage.ground.clock.now() + SOON)
    assert alert_sizes(stage) == [1]


def _last(stage: Stage, burst: BurstKey) -> AlertOutcome:
    """Of its alert by the provider that stalls, in the end."""
    every = [window for some in stage.ground.sent.read(burst, Platform.FCM, [0]).values() for window in some]
    missed = [one for window in every for one in window.missed or ()]
    return [one.fate for one in missed if one.tried.member == member(stage)][-1]


def _pass(stage: Stage, until: datetime) -> None:
    while stage.ground.clock.now() < until:
        stage.dispatch()
        stage.work()
        stage.pass_time(seconds=5)
