"""Of which bursts an alert that is late tells: each is told by itself or by a newer one that was told and names it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import Platform
from notifier.domain.push.device import Device, FirebaseToken, gone
from notifier.domain.push.send_log import Why
from notifier.domain.users.visibility import Mark
from tests.flow.quiet_hours import (
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
from tests.flow.retractions import delete
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import driven
from tests.support.simulator.script import Changed


def test_an_older_one_waits_for_the_newer_and_is_collapsed_once_that_has_told_of_it() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    end_quiet_hours(stage)
    older, newer = stage.bursts()
    work(stage, older)
    assert (alert_sizes(stage), send_batches(stage, older)) == ([], [])
    work(stage, newer)
    [window] = send_batches(stage, newer)
    assert (alert_sizes(stage), window.tells(member(stage))) == ([2], (older.seq,))
    stage.deliver(rounds=60)
    [window] = send_batches(stage, older)
    assert (alert_sizes(stage), [*window.silent]) == ([2], [Why.COLLAPSED])


def took_back(stage: Stage) -> None:
    delete(stage, "newest")
    stage.sequence()


def marked(mark: Mark) -> Callable[[Stage], None]:
    return lambda stage: driven(stage.tab().mark(KIM, [stage.bursts()[-1]], mark))


@pytest.mark.parametrize("deed", [took_back, marked(Mark.READ), marked(Mark.HIDDEN)], ids=["back", "read", "hidden"])
def test_where_the_newest_is_told_no_more_the_next_one_tells_of_the_others(deed: Callable[[Stage], None]) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    for of in ("one", "two", "newest"):
        mention(stage, of=of)
    end_quiet_hours(stage)
    for burst in stage.bursts()[:2]:
        work(stage, burst)
    deed(stage)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]


def test_where_another_account_s_followers_were_told_of_the_newest_s_tweet_the_next_one_tells_of_the_others() -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    mention(stage, "nova", "orion", of="of both")
    end_quiet_hours(stage)
    work(stage, stage.bursts(ORION)[-1])
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
    [window] = send_batches(stage, stage.bursts()[-1])
    assert [*window.silent] == [Why.SAME_TWEET]


def test_an_older_one_is_told_where_a_newer_one_was_told_before_anybody_knew_whom_it_was_for() -> None:
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


def test_a_provider_that_the_newer_one_does_not_go_to_is_told_of_the_older_by_itself() -> None:
    stage = Stage()
    with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    set_quiet_hours(stage)
    mention(stage)
    use_providers(stage, Platform.FCM)
    mention(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.FCM) == [2]
    assert alert_sizes(stage, on=Platform.APNS) == [1]


def test_a_phone_that_came_once_the_newer_one_was_through_rings_for_the_older() -> None:
    stage = Stage()
    apple = with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    set_quiet_hours(stage)
    mention(stage)
    mention(stage)
    _, newer = stage.bursts()
    stage.ground.devices.write([gone(apple)])
    end_quiet_hours(stage)
    work(stage, newer)
    assert alert_sizes(stage, on=Platform.FCM) == [2]
    stage.pass_time(seconds=1)
    with_apple(stage)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.APNS) == [1]
    assert alert_sizes(stage, on=Platform.FCM) == [2]


def test_a_phone_is_not_told_of_what_was_through_before_it_came() -> None:
    stage = Stage()
    kim = member(stage)
    own = Device(member=kim, address=FirebaseToken(token=KIM), registered_at=stage.ground.clock.now())
    with_apple(stage)
    use_providers(stage, Platform.FCM, Platform.APNS)
    stage.ground.devices.write([gone(own)])
    mention(stage)
    set_quiet_hours(stage)
    mention(stage)
    stage.ground.devices.write([replace(own, registered_at=stage.ground.clock.now())])
    mention(stage)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage, on=Platform.APNS) == [1, 2]
    assert alert_sizes(stage, on=Platform.FCM) == [2]


@pytest.mark.parametrize("idle", ["idle:100", "idle:2000"], ids=["p2", "dormant"])
def test_who_was_in_another_tier_by_then_is_told_of_both_at_once(idle: str) -> None:
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    for what in (idle, "alerts:on"):
        stage.scene.change(Changed(person=KIM, what=what))
    set_quiet_hours(stage)
    mention(stage)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
    assert len({sending.tier for sending, some in stage.ground.sent.windows.items() if some}) > 1


def test_bursts_that_never_ring_part_no_summary() -> None:
    """Those of protected accounts, beyond what their purse pays for."""
    stage = Stage()
    set_quiet_hours(stage)
    mention(stage)
    for n in range(40):
        stage.mention("nova", protected=True, of=f"secret {n}")
    mention(stage, author="bob")
    assert stage.bursts()[-1].seq - stage.bursts()[0].seq > 32
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert alert_sizes(stage) == [2]
