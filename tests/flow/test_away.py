"""Quiet hours and what came too late: held, and then one alert of all of it; and how often a phone rings at most."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta

from notifier.codec.push import spares
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import Member, UserId
from notifier.domain.push.alert import MentionAlert, WhileAway
from notifier.domain.push.receipt import RetryAt
from notifier.domain.timing import STALE
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.visibility import Mark
from notifier.ports.push import Spare
from notifier.wiring.delivery import build_slice_worker
from tests.flow.retractions import delete
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven

KIM = UserId("kim")
ASLEEP = OverallWish(quiet=Hours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""Where it is nine in the evening when it is noon by UTC, and five in the morning at 20:00."""
NIGHT = timedelta(hours=8)


def heard(stage: Stage, name: str) -> list[int]:
    """What the phone rang for of nova, one after the other: 0 for a mention, or a summary's number."""
    member = Member(stage.scene.people[name].member)
    found = []
    for sent, device in stage.ground.phones.arrived:
        if device.member == member and sent.subject == NOVA:
            match sent.news:
                case MentionAlert():
                    found.append(0)
                case WhileAway(count=count):
                    found.append(count)
    return found


def mentions(stage: Stage, number: int) -> None:
    """Bursts of their own, each as soon as the last one's window is over."""
    for n in range(number):
        stage.mention("nova", of=f"t{len(stage.bursts())}-{n}")
        stage.deliver_others()
        stage.pass_time(seconds=61)


def test_who_sleeps_is_told_of_the_whole_night_at_once_when_it_is_over() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    began = stage.ground.clock.now()
    mentions(stage, 3)
    assert (heard(stage, "roy"), heard(stage, "kim")) == ([0, 0, 0], [])
    stage.ground.clock.advance(began + NIGHT - timedelta(minutes=1) - stage.ground.clock.now())
    stage.deliver_others()
    assert heard(stage, "kim") == []
    stage.pass_time(seconds=60)
    stage.deliver(rounds=90)
    assert (heard(stage, "kim"), heard(stage, "roy")) == ([3], [0, 0, 0])


def test_a_night_that_was_slept_through_is_not_counted_as_slow() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    system = stage.system()
    work = build_slice_worker(system)

    def counted() -> float | None:
        return system.metrics.registry.get_sample_value("notifier_push_seconds_count", {"platform": "fcm"})

    def rounds(number: int) -> None:
        for _ in range(number):
            stage.dispatch()
            stage.work(by=work)
            stage.pass_time(seconds=1)

    stage.mention("nova")
    rounds(5)
    before = counted()
    assert before == len(stage.ground.phones.arrived) > 0
    stage.ground.clock.advance(NIGHT)
    rounds(60)
    assert heard(stage, "kim") == [0]
    assert counted() == before


def test_a_single_one_of_the_night_is_told_as_it_was_and_wakes_nobody() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    mentions(stage, 1)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    [sent] = [sent for sent, device in stage.ground.phones.arrived if device.member == stage.scene.people["kim"].member]
    assert (sent.news, sent.urgent) == (MentionAlert(opener=UserId("ada")), False)


def test_what_is_told_in_the_morning_reaches_a_phone_that_is_turned_on_an_hour_later() -> None:
    for many in (1, 2):
        stage = Stage()
        stage.ground.people.arrange(KIM, ASLEEP)
        mentions(stage, many)
        stage.ground.clock.advance(NIGHT)
        stage.deliver(rounds=60)
        kim, now = stage.scene.people["kim"].member, stage.ground.clock.now()
        [sent] = [sent for sent, device in stage.ground.phones.arrived if device.member == kim]
        assert sent.expires_at > now + timedelta(hours=1)


def test_what_a_summary_told_is_in_no_other() -> None:
    stage = Stage(settings={"refill": timedelta(minutes=5)})
    stage.ground.people.arrange(KIM, ASLEEP)
    mentions(stage, 2)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    stage.pass_time(hours=16)
    mentions(stage, 2)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    assert heard(stage, "kim") == [2, 2]


def test_who_saw_them_meanwhile_is_told_of_none() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    mentions(stage, 3)
    token = stage.page("kim").seen
    assert token is not None
    driven(stage.tab().see(KIM, token))
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    assert heard(stage, "kim") == []


def test_what_somebody_hid_after_a_newer_one_was_to_tell_of_it_is_counted_no_more() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    mentions(stage, 3)
    stage.ground.clock.advance(NIGHT)
    stage.dispatch()
    oldest, work = stage.bursts()[0], build_slice_worker(stage.system())
    for piece in [piece for piece in stage.ground.queue.waiting[Pool.FCM] if piece.burst == oldest]:
        work(piece)
    driven(stage.tab().mark(KIM, [oldest], Mark.HIDDEN))
    stage.deliver(rounds=90)
    assert heard(stage, "kim") == [2]


def test_what_a_throttle_held_for_too_long_is_one_alert_too() -> None:
    stage = Stage()
    stage.throttle(Tier.P0, seconds=20 * 60)
    mentions(stage, 3)
    assert heard(stage, "kim") == []
    stage.ground.clock.advance(timedelta(minutes=20))
    stage.deliver(rounds=90)
    assert (heard(stage, "kim"), heard(stage, "roy")) == ([3], [3])


def test_what_is_late_is_told_apart_from_what_is_news() -> None:
    stage = Stage()
    stage.throttle(Tier.P0, seconds=(STALE + timedelta(minutes=5)).total_seconds())
    mentions(stage, 2)
    stage.ground.clock.advance(STALE)
    mentions(stage, 1)
    stage.ground.clock.advance(timedelta(minutes=4))
    stage.deliver(rounds=90)
    assert sorted(heard(stage, "kim")) == [0, 2]


def test_a_summary_that_is_tried_again_is_the_same() -> None:
    stage = Stage()
    stage.ground.people.arrange(KIM, ASLEEP)
    mentions(stage, 2)
    stage.ground.clock.advance(NIGHT)
    kim = Member(stage.scene.people["kim"].member)
    [device] = stage.ground.devices.of([kim])[kim]
    stage.ground.phones.says[device.id] = [RetryAt(at=stage.ground.clock.now(), reason="busy")]
    stage.deliver(rounds=90)
    assert heard(stage, "kim") == [2]


def test_a_phone_rings_five_times_an_hour_and_no_more() -> None:
    stage = Stage()
    mentions(stage, 6)
    assert len(stage.bursts()) == 6
    stage.deliver(rounds=30)
    assert heard(stage, "kim") == [0] * 5
    assert len(stage.sees("kim")) == 6


class Knowing:
    """Of nobody by name, as of people who were loaded by ranges: what concerns all of them the burst has to say."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        return spares(shards, [], [])


def test_a_burst_that_was_taken_back_before_it_rang_counts_for_nobody_s_cap() -> None:
    stage = Stage()
    stage.ports = replace(stage.ports, spared=Knowing())
    stage.mention("nova", of="back")
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    assert stage.ground.queue.waiting[Pool.FCM]
    delete(stage, "back")
    stage.sequence()
    stage.work(Pool.FCM)
    stage.deliver_others()
    stage.pass_time(seconds=61)
    mentions(stage, 5)
    stage.deliver(rounds=30)
    assert heard(stage, "kim") == [0] * 5


def test_of_several_celebrities_in_one_tweet_a_follower_of_all_is_alerted_once() -> None:
    stage = Stage()
    stage.mention("nova", "lyra")
    stage.deliver()
    roy = Member(stage.scene.people["roy"].member)
    assert len([sent for sent, device in stage.ground.phones.arrived if device.member == roy]) == 1
    assert len(stage.sees("roy")) == 2
