"""Mentions become bursts: the collapse window, the budget of fan-outs, protected authors and late openings."""

from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.head import VISIBLE_WITHIN
from tests.flow.stage import LYRA, NOVA, Stage
from tests.flow.stalling import Stalling


def test_mentions_in_the_collapse_window_share_a_burst() -> None:
    stage = Stage()
    stage.mention("nova", author="ada")
    stage.pass_time(seconds=59)
    stage.mention("nova", author="bob")
    [burst] = [burst for key, burst in stage.ground.bursts.by_key.items() if key.subject == NOVA]
    assert (burst.count, burst.mentioners) == (2, ("ada", "bob"))


def test_a_mention_after_the_window_opens_a_burst_of_its_own() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=60)
    stage.mention("nova")
    assert len(stage.bursts()) == 2
    assert stage.sees("kim") == ["mention:nova#2", "mention:nova#1"]


def test_whoever_wants_the_first_of_a_day_sees_no_second() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.pass_time(seconds=60)
    stage.mention("nova")
    assert stage.sees("lee") == ["mention:nova#1"]
    stage.pass_time(days=1)
    stage.mention("nova")
    assert stage.sees("lee") == ["mention:nova#3", "mention:nova#1"]


def test_a_celebrity_mentioned_every_minute_spends_her_budget() -> None:
    stage = Stage()
    for _ in range(120):
        stage.mention("nova", "lyra")
        stage.pass_time(minutes=1)
    assert len(stage.bursts(NOVA)) in (7, 8)
    assert len(stage.bursts(LYRA)) == 120


def test_collapse_can_be_switched_off_for_small_subjects_alone() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(3):
        stage.mention("nova", "lyra")
    assert len(stage.bursts(LYRA)) == 3
    assert len(stage.bursts(NOVA)) == 1


def test_a_protected_authors_mention_is_alone_and_for_her_followers() -> None:
    stage = Stage()
    stage.mention("nova", author="ada")
    stage.mention("nova", author="eve", protected=True)
    stage.mention("nova", author="bob")
    assert [stage.ground.bursts.by_key[key].count for key in stage.bursts()] == [2, 1]
    assert stage.sees("kim") == ["mention:nova#2", "mention:nova#1"]
    assert stage.sees("pat") == ["mention:nova#1"]
    stage.deliver()
    second = [row for row in stage.ground.archive.rows() if row.row.burst == stage.bursts()[1]]
    names = {person.member: name for name, person in stage.scene.people.items()}
    assert {names[row.block * 1024 + row.row.slot] for row in second} == {"kim", "max"}


def test_the_mentioned_follower_of_a_protected_author_gets_her_own_item() -> None:
    stage = Stage()
    stage.mention("nova", author="eve", protected=True)
    stage.deliver()
    assert stage.sees("nova") == ["self:nova#1"]
    assert {sent.burst.subject.kind for sent, _ in stage.ground.phones.arrived} >= {"self"}


@pytest.mark.parametrize(("port", "method"), [("bursts", "write"), ("pull", "announce")])
def test_a_burst_that_could_not_become_visible_in_time_opens_later(port: str, method: str) -> None:
    stage = Stage()
    start = stage.ground.clock.now()
    stage.tweet("nova")
    stage.pump(topics.MENTIONS).step()
    stalling = Stalling(getattr(stage.ground, port), method, lambda: stage.pass_time(seconds=5))
    stage.pump(topics.MENTIONS_CELEBRITY, **{port: stalling}).step()
    [burst] = stage.ground.bursts.by_key.values()
    assert burst.opened_at > start + VISIBLE_WITHIN
    assert stage.page("kim").items[0].burst == burst


def test_openings_rise_with_the_numbers() -> None:
    stage = Stage(collapse=timedelta(0))
    for _ in range(5):
        stage.tweet("lyra")
    stage.sequence()
    opened = [stage.ground.bursts.by_key[key].opened_at for key in stage.bursts(LYRA)]
    assert opened == sorted(set(opened))
    assert len(opened) == 5
