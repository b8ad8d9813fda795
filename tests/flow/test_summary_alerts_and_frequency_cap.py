"""Summary alerts after quiet hours or delays, and the alert limit per user."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from notifier.codec.devices_send_log_suppressions import suppression_by_shard
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Member, UserId
from notifier.domain.push.alert import MentionAlert, SummaryAlert
from notifier.domain.push.receipt import RetryAt
from notifier.domain.users.visibility import Mark
from notifier.ports.push import PushSuppression
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alerts_of_one_user import KIM, NIGHT, QUIET
from tests.flow.retraction_steps import delete
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync


def alerts_of(stage: Stage, name: str) -> list[int]:
    """Return the user's alerts for nova in order: 0 for a mention, or the count of a summary."""
    member = Member(stage.population.people[name].member)
    counts = []
    for sent, device in stage.state.phones.arrived:
        if device.member == member and sent.subject == NOVA:
            match sent.content:
                case MentionAlert():
                    counts.append(0)
                case SummaryAlert(count=count):
                    counts.append(count)
    return counts


def mentions(stage: Stage, number: int) -> None:
    """Open bursts, each after the collapse window of the previous one."""
    for n in range(number):
        stage.mention("nova", of=f"t{len(stage.bursts())}-{n}")
        stage.deliver_others()
        stage.pass_time(seconds=61)


def test_quiet_hours_end_with_one_summary_alert() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    began = stage.state.clock.now()
    mentions(stage, 3)
    assert (alerts_of(stage, "roy"), alerts_of(stage, "kim")) == ([0, 0, 0], [])
    stage.state.clock.advance(began + NIGHT - timedelta(minutes=1) - stage.state.clock.now())
    stage.deliver_others()
    assert alerts_of(stage, "kim") == []
    stage.pass_time(seconds=60)
    stage.deliver(rounds=90)
    assert (alerts_of(stage, "kim"), alerts_of(stage, "roy")) == ([3], [0, 0, 0])


def test_quiet_hours_do_not_count_as_push_latency() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
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
    assert before == len(stage.state.phones.arrived) > 0
    stage.state.clock.advance(NIGHT)
    rounds(60)
    assert alerts_of(stage, "kim") == [0]
    assert counted() == before


def test_single_burst_after_quiet_hours_is_a_silent_mention_alert() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, 1)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    [sent] = [
        sent for sent, device in stage.state.phones.arrived if device.member == stage.population.people["kim"].member
    ]
    assert (sent.content, sent.is_urgent) == (MentionAlert(opener=UserId("ada")), False)


def test_alert_after_quiet_hours_expires_after_more_than_an_hour() -> None:
    for bursts in (1, 2):
        stage = Stage()
        stage.state.people.patch_account(KIM, QUIET)
        mentions(stage, bursts)
        stage.state.clock.advance(NIGHT)
        stage.deliver(rounds=60)
        kim, now = stage.population.people["kim"].member, stage.state.clock.now()
        [sent] = [sent for sent, device in stage.state.phones.arrived if device.member == kim]
        assert sent.expires_at > now + timedelta(hours=1)


def test_summary_does_not_repeat_bursts_of_an_earlier_one() -> None:
    stage = Stage(settings={"refill": timedelta(minutes=5)})
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, 2)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    stage.pass_time(hours=16)
    mentions(stage, 2)
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    assert alerts_of(stage, "kim") == [2, 2]


def test_bursts_seen_during_quiet_hours_cause_no_summary() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, 3)
    token = stage.page("kim").seen
    assert token is not None
    run_sync(stage.uncached_inbox().see(KIM, token))
    stage.state.clock.advance(NIGHT)
    stage.deliver(rounds=60)
    assert alerts_of(stage, "kim") == []


def test_summary_does_not_count_burst_hidden_before_it_is_sent() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, 3)
    stage.state.clock.advance(NIGHT)
    stage.dispatch()
    oldest, work = stage.bursts()[0], build_slice_worker(stage.system())
    for slice_ in [slice_ for slice_ in stage.state.queue.waiting[Pool.FCM] if slice_.burst == oldest]:
        work(slice_)
    run_sync(stage.uncached_inbox().mark(KIM, [oldest], Mark.HIDDEN))
    stage.deliver(rounds=90)
    assert alerts_of(stage, "kim") == [2]


def test_bursts_delayed_by_a_throttle_become_one_summary() -> None:
    stage = Stage()
    stage.throttle(Tier.P0, seconds=20 * 60)
    mentions(stage, 3)
    assert alerts_of(stage, "kim") == []
    stage.state.clock.advance(timedelta(minutes=20))
    stage.deliver(rounds=90)
    assert (alerts_of(stage, "kim"), alerts_of(stage, "roy")) == ([3], [3])


def test_late_bursts_and_new_bursts_cause_separate_alerts() -> None:
    stage = Stage()
    stage.throttle(Tier.P0, seconds=(LATE_AFTER + timedelta(minutes=5)).total_seconds())
    mentions(stage, 2)
    stage.state.clock.advance(LATE_AFTER)
    mentions(stage, 1)
    stage.state.clock.advance(timedelta(minutes=4))
    stage.deliver(rounds=90)
    assert sorted(alerts_of(stage, "kim")) == [0, 2]


def test_retried_summary_has_the_same_count() -> None:
    stage = Stage()
    stage.state.people.patch_account(KIM, QUIET)
    mentions(stage, 2)
    stage.state.clock.advance(NIGHT)
    kim = Member(stage.population.people["kim"].member)
    [device] = stage.state.devices.by_member([kim])[kim]
    stage.state.phones.answers[device.id] = [RetryAt(at=stage.state.clock.now(), reason="busy")]
    stage.deliver(rounds=90)
    assert alerts_of(stage, "kim") == [2]


def test_user_gets_at_most_five_alerts_an_hour() -> None:
    stage = Stage()
    mentions(stage, 6)
    assert len(stage.bursts()) == 6
    stage.deliver(rounds=30)
    assert alerts_of(stage, "kim") == [0] * 5
    assert len(stage.sees("kim")) == 6


class WithoutNames:
    """Suppresses no user by name, as for users loaded by ranges; the burst itself is the only source."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        return suppression_by_shard(shards, [], [])


def test_retracted_burst_does_not_consume_the_frequency_cap() -> None:
    stage = Stage()
    stage.ports = replace(stage.ports, push_suppressions=WithoutNames())
    stage.mention("nova", of="back")
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)
    stage.pass_time(seconds=1)
    stage.dispatch()
    assert stage.state.queue.waiting[Pool.FCM]
    delete(stage, "back")
    stage.sequence()
    stage.work(Pool.FCM)
    stage.deliver_others()
    stage.pass_time(seconds=61)
    mentions(stage, 5)
    stage.deliver(rounds=30)
    assert alerts_of(stage, "kim") == [0] * 5


def test_follower_of_several_mentioned_celebrities_gets_one_alert() -> None:
    stage = Stage()
    stage.mention("nova", "lyra")
    stage.deliver()
    roy = Member(stage.population.people["roy"].member)
    assert len([sent for sent, device in stage.state.phones.arrived if device.member == roy]) == 1
    assert len(stage.sees("roy")) == 2
