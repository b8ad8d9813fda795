"""Alerts: suppression, throttles, expiry, and unavailable suppression data."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_due_times_alert_ages import LATE_AFTER
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, Pool, Retry, Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.ports.push import PushSuppression
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.wiring.delivery import build_slice_worker
from tests.flow.alerts_of_one_user import QUIET
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync

LEE = UserId("lee")
"""Lee follows nova, has a device, and is in P1; kim and roy are in P0."""


def write_rows(stage: Stage) -> None:
    """Write the rows and send no alert."""
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)


def alerted(stage: Stage) -> set[str]:
    names = {person.member: name for name, person in stage.population.people.items()}
    members = [device.member for sent, device in stage.state.phones.arrived if sent.burst.subject == NOVA]
    assert len(members) == len(set(members))
    return {names[member] for member in members}


def see_inbox(stage: Stage) -> None:
    token = stage.page(LEE).seen
    assert token is not None
    run_sync(stage.uncached_inbox().see(LEE, token))


def mark_with(mark: Mark) -> Callable[[Stage], None]:
    return lambda stage: run_sync(stage.uncached_inbox().mark(LEE, stage.bursts(), mark))


ACTIONS: dict[str, Callable[[Stage], None]] = {
    "saw it": see_inbox,
    "read it": mark_with(Mark.READ),
    "hid it": mark_with(Mark.HIDDEN),
    "blocked the opener": lambda stage: stage.state.people.block(LEE, UserId("ada")),
    "was blocked by the opener": lambda stage: stage.state.people.block(UserId("ada"), LEE),
    "blocked the account": lambda stage: stage.state.people.block(LEE, NOVA.owner),
    "was blocked by the account": lambda stage: stage.state.people.block(NOVA.owner, LEE),
    "was blocked for a moment": lambda stage: stage.state.people.unblock(NOVA.owner, LEE, stage.state.clock.now()),
    "muted the subject": lambda stage: stage.state.people.mute(LEE, NOVA),
    "unfollowed the account": lambda stage: stage.state.people.unfollow(LEE, NOVA),
    "followed the account again": lambda stage: stage.state.people.follow(LEE, NOVA, stage.state.clock.now()),
    "deleted the account": lambda stage: stage.state.directory.enrol(
        [DirectoryEntry(user=LEE, member=Member(stage.population.people[LEE].member), deleted=True)]
    ),
    "turned the subject off": lambda stage: stage.state.people.volume(LEE, NOVA, Volume.OFF),
    "turned all subjects off": lambda stage: stage.state.people.patch_account(
        LEE, AccountPreferencesPatch(volume=Volume.OFF)
    ),
    "turned alerts off": lambda stage: stage.state.people.patch_account(LEE, AccountPreferencesPatch(push=False)),
    "began quiet hours": lambda stage: stage.state.people.patch_account(LEE, QUIET),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_user_action_before_the_alert_suppresses_it(action: str) -> None:
    stage = Stage()
    stage.mention("nova")
    write_rows(stage)
    stage.pass_time(seconds=3)
    ACTIONS[action](stage)
    stage.deliver_others()  # users in quiet hours may still get an alert later
    assert alerted(stage) == {"kim", "roy"}


def test_user_who_blocked_the_opener_gets_no_alert_but_sees_the_burst() -> None:
    stage = Stage()
    stage.mention("nova", author="bob")
    stage.mention("nova", author="ada")
    stage.deliver()
    assert alerted(stage) == {"kim", "lee"}
    assert stage.sees("roy") == ["mention:nova#1"]


@pytest.mark.parametrize(("tier", "names"), [(Tier.P0, {"kim", "roy"}), (Tier.P1, {"lee"})])
def test_long_throttle_loses_no_alert(tier: Tier, names: set[str]) -> None:
    stage = Stage()
    pause = 2 * LATE_AFTER
    stage.throttle(tier, seconds=pause.total_seconds())
    stage.mention("nova")
    stage.deliver_others()
    assert alerted(stage) == {"kim", "roy", "lee"} - names
    stage.state.clock.advance(pause)
    stage.deliver(rounds=90)
    assert alerted(stage) == {"kim", "roy", "lee"}


def test_alert_is_still_sent_just_before_a_day_has_passed() -> None:
    stage = Stage()
    stage.mention("nova")
    write_rows(stage)
    stage.state.clock.advance(POOL_TIMINGS[Pool.FCM].expires_after - timedelta(seconds=5))
    stage.dispatch()
    stage.work(Pool.FCM)
    assert alerted(stage) == {"kim", "lee", "roy"}


def test_alert_expires_after_one_day() -> None:
    stage = Stage()
    stage.mention("nova")
    write_rows(stage)
    stage.state.clock.advance(POOL_TIMINGS[Pool.FCM].expires_after)
    stage.deliver()
    assert alerted(stage) == set()
    assert final_push_facts(stage) == {Fact.PULLED}


def test_users_of_pulled_slices_still_get_alerts() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.state.clock.advance(POOL_TIMINGS[Pool.P1].expires_after)
    stage.deliver()
    assert alerted(stage) == {"kim", "lee", "roy"}


def final_push_facts(stage: Stage) -> set[Fact]:
    [progress] = [
        progress for progress in stage.state.store_scan.burst_progress() if progress.plan.burst.subject == NOVA
    ]
    return {
        status.final_entry.fact
        for status in progress.slice_states.values()
        if status.final_entry and status.slice.step is Step.FCM
    }


class UnknownSuppressions:
    """Push suppressions cannot be read."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, PushSuppression]:
        raise StoreUnavailable("for a test")


def test_slice_waits_while_suppressions_are_unavailable() -> None:
    stage = Stage()
    stage.mention("nova")
    write_rows(stage)
    stage.pass_time(seconds=1)
    stage.dispatch()
    unknown_suppressions: Any = UnknownSuppressions()
    outcomes = stage.work(Pool.FCM, by=build_slice_worker(stage.system(push_suppressions=unknown_suppressions)))
    assert Retry in {type(outcome) for outcome in outcomes}
    assert alerted(stage) == set()
    stage.pass_time(seconds=30)
    stage.deliver()
    assert alerted(stage) == {"kim", "lee", "roy"}
