"""The backlog: a round that looks at a few of the open bursts decides what one that looks at all would."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.backlog import FAR, Backlog, Line, Place
from notifier.domain.delivery.ledger import BurstProgress, Fact, LedgerEntry, account
from notifier.domain.delivery.scheduling import Credit, DispatchDecision, decide
from notifier.domain.delivery.slice import Pool, Step
from notifier.domain.delivery.throttle import TierLimit
from tests.properties.bookkeeping import SECONDS, files, plans
from tests.properties.test_dispatch import ALLOWANCES, LEFT, PURSES
from tests.support.examples import NOON, SECOND


@st.composite
def many(draw: st.DrawFn) -> list[BurstProgress]:
    """More bursts than credits, each opened at a moment of its own."""
    count = draw(st.integers(1, 6))
    order = draw(st.permutations(range(count)))
    return [draw(files(seq=n + 1, opened_at=NOON - n * SECOND)).account for n in order]


def holding(allowances: Mapping[Tier, TierLimit]) -> Mapping[Pool, str]:
    return {Pool(tier): allowed.by for tier, allowed in allowances.items() if allowed.by is not None}


def decided(
    accounts: Sequence[BurstProgress],
    now: datetime,
    purses: Mapping[Pool, Credit],
    allowances: Mapping[Tier, TierLimit],
    left: Mapping[Tier, float],
) -> DispatchDecision:
    return decide(accounts, now=now, credits=purses, allowances=allowances, people_left=left)


def few(backlog: Backlog, purses: Mapping[Pool, Credit], now: datetime) -> Sequence[BurstProgress]:
    return backlog.candidates({pool: credit.slices for pool, credit in purses.items()}, now)


@given(many(), SECONDS, PURSES, ALLOWANCES, LEFT)
@settings(max_examples=60, deadline=None)
def test_a_few_are_decided_as_all_would_be(
    accounts: list[BurstProgress],
    passed: timedelta,
    purses: Mapping[Pool, Credit],
    allowances: Mapping[Tier, TierLimit],
    left: Mapping[Tier, float],
) -> None:
    now, backlog = NOON + passed, Backlog()
    backlog.hold(holding(allowances))
    backlog.put(accounts, now)
    of_all = decided(accounts, now, purses, allowances, left)
    of_few = decided(few(backlog, purses, now), now, purses, allowances, left)
    assert set(of_few.queue) == set(of_all.queue)
    assert set(of_few.park) == set(of_all.park)


@given(many(), many(), st.data())
@settings(max_examples=60, deadline=None)
def test_lines_and_sums_follow_the_accounts(
    before: list[BurstProgress], after: list[BurstProgress], data: st.DataObject
) -> None:
    """However they came about: the same as a backlog that saw only the last of each."""
    backlog, fresh = Backlog(), Backlog()
    backlog.hold({Pool.P1: "t1"})
    backlog.put(before, NOON)
    backlog.hold({Pool.P2: "t2"})
    backlog.put(after, NOON)
    entries = [
        LedgerEntry(slice=data.draw(st.sampled_from(list(account.standings))), fact=Fact.DISPATCHED, n=9, at=NOON)
        for account in after
        if account.standings
    ]
    backlog.enter(entries, NOON)
    gone = [account.plan.burst for account in before[::2]]
    backlog.drop(gone)
    fresh.hold({Pool.P2: "t2"})
    last = {account.plan.burst: account for account in (*before, *after)}
    for entry in entries:
        last[entry.slice.burst] = last[entry.slice.burst].with_entry(entry)
    fresh.put((account for key, account in last.items() if key not in gone), NOON)
    assert backlog.behind() == fresh.behind()
    assert (backlog.accounts, backlog.moving, backlog.settled) == (fresh.accounts, fresh.moving, fresh.settled)
    assert _standing(backlog) == _standing(fresh)
    assert (backlog.stands, backlog.asleep, backlog.wakes) == (fresh.stands, fresh.asleep, fresh.wakes)
    assert backlog.abed.keys() == fresh.abed.keys()
    assert {pool: set(keys) for pool, keys in backlog.unmarked.items()} == {
        pool: set(keys) for pool, keys in fresh.unmarked.items()
    }


def _standing(backlog: Backlog) -> Mapping[Line, Sequence[Place]]:
    return {line: places for line, places in backlog.lines.items() if places}


@given(many(), SECONDS, SECONDS)
@settings(max_examples=40, deadline=None)
def test_what_waits_for_a_moment_is_awake_when_it_has_come(
    accounts: list[BurstProgress], first: timedelta, second: timedelta
) -> None:
    before, after = sorted((NOON + first, NOON + second))
    backlog, fresh = Backlog(), Backlog()
    backlog.put(accounts, before)
    backlog.wake(after)
    fresh.put(accounts, after)
    assert (_standing(backlog), backlog.asleep, backlog.behind()) == (_standing(fresh), fresh.asleep, fresh.behind())


@st.composite
def late(draw: st.DrawFn) -> BurstProgress:
    """Nearly all rows stand, and phones rang, wait, or do neither."""
    found, entries = draw(plans(most_shards=2)), list[LedgerEntry]()
    for piece in found.slices():
        done = LedgerEntry(slice=piece, fact=Fact.DONE, at=NOON)
        waits = LedgerEntry(slice=piece, fact=Fact.WAITS, n=1, at=NOON + draw(SECONDS))
        rows = piece.step is Step.ROWS  # which wait for nobody
        more = [waits] if not rows and draw(st.integers(0, 9)) else []
        entries += [done] if draw(st.integers(0, 30 if rows else 3)) else more
    return account(found, entries, [])


GENEROUS = {pool: Credit(slices=99, shards=9_999) for pool in Pool}


@given(late())
@settings(max_examples=200, deadline=None)
def test_of_a_sleeper_nothing_is_to_be_done_until_it_wakes_and_every_other_is_kept(one: BurstProgress) -> None:
    def idle(moment: datetime) -> bool:
        return not decided([one], moment, GENEROUS, {}, {}).queue

    backlog = Backlog()
    backlog.put([one], NOON)
    sleepers = {sleeper.burst: sleeper.until for sleeper in backlog.sleepers()}
    until = sleepers.get(one.plan.burst)
    event("sleeps" if until else "is awake")
    if until is None:
        assert one.settled or not idle(NOON) or not idle(NOON + FAR)
    else:
        assert idle(NOON)
        assert idle(until - timedelta(milliseconds=1))
        assert not idle(until)
    backlog.drop(sleepers)
    assert backlog.sleepers() == []


@given(many())
@settings(max_examples=30, deadline=None)
def test_what_is_behind_is_what_may_start_and_has_not_ended(accounts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(accounts, NOON)
    for pool, behind in backlog.behind().items():
        left = [
            account.plan.opened_at
            for account in accounts
            for standing in account.standings.values()
            if standing.slice.pool is pool and account.awake(standing, NOON)
        ]
        assert (behind.slices, behind.since) == (len(left), min(left, default=None))


@given(many())
@settings(max_examples=30, deadline=None)
def test_a_throttle_s_work_counts_and_is_not_late(accounts: list[BurstProgress]) -> None:
    backlog = Backlog()
    backlog.put(accounts, NOON)
    before = backlog.behind()
    backlog.hold({Pool.P2: "t1"})
    assert backlog.behind() == {**before, Pool.P2: replace(before[Pool.P2], since=None)}
