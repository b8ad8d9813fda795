"""Mentions become bursts: collapse window, fan-out budget, protected authors and late openings."""

from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.sequencer import VISIBILITY_DEADLINE
from notifier.domain.errors import StoreUnavailable
from notifier.wiring.delivery import build_reconciler
from tests.flow.port_with_callback import RunsAfterCall
from tests.support.failing_and_corrupt_ports import FailingPlans
from tests.support.in_memory_system import LYRA, NOVA, Stage, members_of


def test_mentions_in_the_collapse_window_share_a_burst() -> None:
    stage = Stage()
    stage.mention("nova", author="ada")
    stage.pass_time(seconds=59)
    stage.mention("nova", author="bob")
    [burst] = [burst for key, burst in stage.state.bursts.by_key.items() if key.subject == NOVA]
    assert (burst.count, burst.mentioners) == (2, ("ada", "bob"))


def test_mention_after_the_collapse_window_opens_new_burst() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=60)
    stage.mention("nova")
    assert len(stage.bursts()) == 2
    assert stage.sees("kim") == ["mention:nova#2", "mention:nova#1"]


def test_user_with_volume_first_sees_only_first_burst_of_a_day() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=60)
    stage.mention("nova")
    assert stage.sees("lee") == ["mention:nova#1"]
    stage.pass_time(days=1)
    stage.mention("nova")
    assert stage.sees("lee") == ["mention:nova#3", "mention:nova#1"]


def test_constant_mentions_exhaust_the_fanout_budget() -> None:
    stage = Stage()
    for _ in range(120):
        stage.mention("nova", "lyra")
        stage.pass_time(minutes=1)
    assert len(stage.bursts(NOVA)) in (7, 8)
    assert len(stage.bursts(LYRA)) == 120


def test_collapse_can_be_disabled_only_for_small_subjects() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(3):
        stage.mention("nova", "lyra")
    assert len(stage.bursts(LYRA)) == 3
    assert len(stage.bursts(NOVA)) == 1


def test_protected_mention_has_own_burst_for_followers_of_the_author() -> None:
    stage = Stage()
    stage.mention("nova", author="ada")
    stage.mention("nova", author="eve", protected=True)
    stage.mention("nova", author="bob")
    assert [stage.state.bursts.by_key[key].count for key in stage.bursts()] == [2, 1]
    assert stage.sees("kim") == ["mention:nova#2", "mention:nova#1"]
    assert stage.sees("pat") == ["mention:nova#1"]
    stage.deliver()
    second = [stored for stored in stage.rows() if stored.row.burst == stage.bursts()[1]]
    names = {person.member: name for name, person in stage.population.people.items()}
    assert {names[member] for stored in second for member in members_of(stored)} == {"kim", "max"}


def test_restricted_bursts_beyond_the_budget_are_pull_only() -> None:
    stage = Stage()
    for _ in range(9):
        stage.mention("nova", "lyra", author="eve", protected=True)
    stage.mention("nova", author="ada")
    bursts = stage.state.ledger.read([*stage.bursts(NOVA), *stage.bursts(LYRA)])
    planned = {key: bool(progress.slice_states) for key, progress in bursts.items()}
    assert [planned[key] for key in stage.bursts(NOVA)] == [True] * 6 + [False] * 3 + [True]
    assert [planned[key] for key in stage.bursts(LYRA)] == [True] * 9
    stage.deliver()
    assert [key for key in stage.sees("kim") if key.startswith("mention:nova")] == [
        f"mention:nova#{seq}" for seq in range(10, 0, -1)
    ]
    assert stage.sees("pat") == ["mention:nova#10"]
    assert {row.row.burst.seq for row in stage.state.store_scan.rows() if row.row.burst.subject == NOVA} == {
        *range(1, 7),
        10,
    }
    assert len([key for key in stage.sees("nova") if key.startswith("self:")]) == 10


def test_pull_only_burst_is_settled_at_once_and_balanced() -> None:
    stage = Stage()
    for _ in range(7):
        stage.mention("nova", author="eve", protected=True)
    last = stage.bursts()[-1]
    stage.dispatch()
    assert last not in stage.state.ledger.unfinished_bursts()
    [sums] = build_reconciler(stage.system()).totals([last])
    assert (sums.is_balanced, sums.expected, sums.in_flight) == (True, 0, 0)


def test_successor_publishes_the_crashed_coordinators_decision() -> None:
    stage = Stage()
    for _ in range(6):
        stage.mention("nova", author="eve", protected=True)
    stage.tweet("nova", author="eve", protected=True)
    router = stage.pump(topics.MENTIONS)
    assert router.step() == 1
    router.consumer.close()
    crashing = stage.pump(topics.MENTIONS_CELEBRITY, ledger=FailingPlans(stage.state.ledger))
    with pytest.raises(StoreUnavailable):
        crashing.step()
    crashing.consumer.close()
    assert stage.state.heads.unpublished(9) == [NOVA]
    stage.pass_time(hours=10)
    stage.sequence()
    last = stage.bursts()[-1]
    assert (last.seq, stage.state.bursts.by_key[last].pull_only) == (7, True)
    assert stage.state.ledger.read([last])[last].slice_states == {}


def test_mentioned_follower_of_protected_author_gets_self_item() -> None:
    stage = Stage()
    stage.mention("nova", author="eve", protected=True)
    stage.deliver()
    assert stage.sees("nova") == ["self:nova#1"]
    assert {sent.burst.subject.kind for sent, _ in stage.state.phones.arrived} >= {"self"}


@pytest.mark.parametrize(("port", "method"), [("bursts", "write"), ("pull", "announce")])
def test_burst_published_late_gets_later_opening_time(port: str, method: str) -> None:
    stage = Stage()
    start = stage.state.clock.now()
    stage.tweet("nova")
    stage.pump(topics.MENTIONS).step()
    stalling = RunsAfterCall(getattr(stage.state, port), method, lambda: stage.pass_time(seconds=5))
    stage.pump(topics.MENTIONS_CELEBRITY, **{port: stalling}).step()
    [burst] = stage.state.bursts.by_key.values()
    assert burst.opened_at > start + VISIBILITY_DEADLINE
    assert stage.page("kim").items[0].entry == burst


def test_opening_times_increase_with_sequence_numbers() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(5):
        stage.tweet("lyra")
    stage.sequence()
    opened = [stage.state.bursts.by_key[key].opened_at for key in stage.bursts(LYRA)]
    assert opened == sorted(set(opened))
    assert len(opened) == 5
