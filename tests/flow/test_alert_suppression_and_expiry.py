"""Alerts: suppression, throttles, expiry, leases, and unavailable suppression data."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from notifier.domain.audience.bitmap import Bits, from_offsets
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.backoff_and_due_times import LATE_AFTER
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice_and_pool import POOL_TIMINGS, Pool, Retry, Slice, Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.ports.ledger_claims_and_store_scan import Ledger
from notifier.ports.push import PushSuppression
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.push import build_push_pipeline
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


def test_claim_is_renewed_during_slow_reads() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts()
    burst, clock, claims = stage.state.bursts.by_key[key], stage.state.clock, stage.state.claims
    slice_ = Slice(key, Step.FCM, Tier.P0, 0, 4)

    class AlertedEverywhere:
        def read_to_alert(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
            return {shard: from_offsets([1]) for shard in shards}

    class Slow:
        def drafts(self, *args: Any) -> Iterator[Any]:
            clock.advance(slice_.pool_timing.lease / 2)
            return iter(())

    pipeline_ports: Any = {"audience_snapshots": AlertedEverywhere(), "selection": Slow()}
    claim = claims.claim(slice_, "one", clock.now(), clock.now() + slice_.pool_timing.lease)
    assert claim is not None
    replace(build_push_pipeline(stage.system()), **pipeline_ports)(burst, slice_, SliceLease(claim, claims, clock))
    assert claims.claim(slice_, "other", clock.now(), clock.now() + slice_.pool_timing.lease) is None


@dataclass(frozen=True)
class LateWrites:
    """A worker that lost the slice records a wait of 8 hours right before the current worker."""

    ledger: Ledger

    def __getattr__(self, method: str) -> Any:
        return getattr(self.ledger, method)

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        waits = [entry for entry in entries if entry.fact is Fact.DEFERRED and entry.number == 1]
        self.ledger.record([replace(entry, at=entry.at + timedelta(hours=8)) for entry in waits])
        return self.ledger.record(entries)


def test_only_lease_holder_can_defer_slice() -> None:
    stage = Stage()
    stage.state.phones.away = True
    stage.mention("nova")
    write_rows(stage)
    stage.pass_time(seconds=1)
    stage.dispatch()
    late_writes: Any = LateWrites(stage.state.ledger)
    stage.work(Pool.FCM, by=build_slice_worker(stage.system(ledger=late_writes)))
    stage.state.phones.away = False
    stage.deliver(rounds=90)
    assert alerted(stage) == {"kim", "lee", "roy"}


def test_worker_that_lost_its_lease_records_no_wait() -> None:
    stage = Stage()
    stage.mention("nova")
    [key] = stage.bursts()
    clock, slice_ = stage.state.clock, Slice(key, Step.FCM, Tier.P0, 0, 0)

    def stall_past_lease(burst: Burst, slice_: Slice, lease: SliceLease) -> LedgerEntry:
        clock.advance(slice_.pool_timing.lease)
        now = clock.now()
        assert stage.state.claims.claim(slice_, "other", now, now + slice_.pool_timing.lease) is not None
        return LedgerEntry(slice=slice_, fact=Fact.DEFERRED, number=0, at=now + timedelta(hours=8))

    work = build_slice_worker(stage.system())
    outcome = replace(work, handlers={**work.handlers, Step.FCM: stall_past_lease})(slice_)
    assert outcome == Retry(reason="the claim was lost")
    assert stage.state.ledger.read([key])[key].slice_states[slice_].deferred_until is None


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
