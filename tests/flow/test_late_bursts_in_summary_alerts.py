"""Summaries: every late burst is alerted by itself or counted in a newer burst's alert."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Platform
from notifier.domain.push.device import Device, FirebaseToken, removal_of
from notifier.domain.push.send_log import SilentReason
from notifier.domain.users.visibility import Mark
from tests.flow.alerts_of_one_user import (
    KIM,
    NIGHT,
    ORION,
    alert_sizes,
    end_quiet_hours,
    member,
    mention,
    send_batches,
    set_quiet_hours,
    use_providers,
    with_apple,
    work,
)
from tests.flow.retraction_steps import delete
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.script import Changed


def test_older_burst_collapses_into_the_summary_of_a_newer_one() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, newer = stage.bursts()
    work(stage, older)
    assert (alert_sizes(stage), send_batches(stage, older)) == ([], [])
    work(stage, newer)
    [batch] = send_batches(stage, newer)
    assert (alert_sizes(stage), batch.covered_by_alert(member(stage))) == ([2], (older.seq,))
    stage.deliver(rounds=60)
    [batch] = send_batches(stage, older)
    assert (alert_sizes(stage), [*batch.silent]) == ([2], [SilentReason.COLLAPSED])


def delete_newest(stage: Stage) -> None:
    delete(stage, "newest")
    stage.sequence()


def marked(mark: Mark) -> Callable[[Stage], None]:
    return lambda stage: run_sync(stage.uncached_inbox().mark(KIM, [stage.bursts()[-1]], mark))


@pytest.mark.parametrize(
    "action", [delete_newest, marked(Mark.READ), marked(Mark.HIDDEN)], ids=["deleted", "read", "hidden"]
)
def test_next_burst_sends_the_summary_when_the_newest_is_not_alerted(action: Callable[[Stage], None]) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    for tweet in ("one", "two", "newest"):
        mention(stage, of=tweet)
    end_quiet_hours(stage)
    for burst in stage.bursts()[:2]:
        work(stage, burst)
    action(stage)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]


def test_next_burst_sends_the_summary_when_the_newest_tweet_was_alerted() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    mention(stage, "nova", "orion", of="of both")
    end_quiet_hours(stage)
    work(stage, stage.bursts(ORION)[-1])
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
    [batch] = send_batches(stage, stage.bursts()[-1])
    assert [*batch.silent] == [SilentReason.SAME_TWEET]


def test_older_burst_is_alerted_if_its_snapshot_came_after_the_newer_alert() -> None:
    stage = Stage()
    stage.mention("nova", of="older")
    stage.dispatch()
    stage.pass_time(minutes=16)
    stage.mention("nova", of="newer")
    _, newer = stage.bursts()
    stage.pass_time(minutes=16)
    for _ in range(3):
        stage.dispatch()
        work(stage, newer, Pool.P0, Pool.FCM)
        stage.pass_time(seconds=1)
    assert alert_sizes(stage) == [1]
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [1, 1]


def test_older_burst_is_alerted_by_a_provider_that_the_newer_one_lacks() -> None:
    stage = Stage()
    with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    set_quiet_hours(stage)
    mention(stage)
    use_providers(stage, Platform.FCM)
    mention(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.FCM) == [2]
    assert alert_sizes(stage, on=Platform.APNS) == [1]


def test_device_added_after_the_newer_alert_gets_the_older_burst() -> None:
    stage = Stage()
    apple = with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    _, newer = stage.bursts()
    stage.state.devices.write([removal_of(apple)])
    end_quiet_hours(stage)
    work(stage, newer)
    assert alert_sizes(stage, on=Platform.FCM) == [2]
    stage.pass_time(seconds=1)
    with_apple(stage)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.APNS) == [1]
    assert alert_sizes(stage, on=Platform.FCM) == [2]


def test_new_device_gets_no_alert_of_finished_bursts() -> None:
    stage = Stage()
    kim = member(stage)
    google_device = Device(member=kim, address=FirebaseToken(token=KIM), registered_at=stage.state.clock.now())
    with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    stage.state.devices.write([removal_of(google_device)])
    mention(stage)
    set_quiet_hours(stage)
    mention(stage)
    stage.state.devices.write([replace(google_device, registered_at=stage.state.clock.now())])
    mention(stage)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.APNS) == [1, 2]
    assert alert_sizes(stage, on=Platform.FCM) == [2]


@pytest.mark.parametrize("idle", ["idle:100", "idle:2000"], ids=["p2", "dormant"])
def test_summary_includes_bursts_of_an_earlier_tier(idle: str) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    for change in (idle, "alerts:on"):
        stage.population.change(Changed(person=KIM, what=change))
    set_quiet_hours(stage)
    mention(stage)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
    assert len({sending.tier for sending, batches in stage.state.send_log.batches.items() if batches}) > 1


def test_bursts_without_alerts_do_not_split_a_summary() -> None:
    """The silent bursts are by protected authors, beyond their fan-out budget."""
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    for n in range(40):
        stage.mention("nova", protected=True, of=f"secret {n}")
    mention(stage, author="bob")
    assert stage.bursts()[-1].seq - stage.bursts()[0].seq > 32
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
