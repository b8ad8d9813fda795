"""One thread is struck at every port call of a course of events, and every promise is kept all the same."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.support.simulator.run import Trial, trial
from tests.support.simulator.scenarios.catalog import (
    a_join,
    a_look,
    a_pause,
    dies,
    fails,
    one_mention,
    points,
    sleeps,
    watched,
)
from tests.support.simulator.script import Fault, Happening, How, Script, Stalled

Course = Callable[[], Script]
Strike = Callable[[str], Fault]

pytestmark = pytest.mark.timeout(300)


def broken(course: Course, strike: Strike, every: int = 1) -> list[str]:
    struck = list(points(course(), strike, every=every))
    assert len(struck) > 50, "the course has hardly a point to strike at"
    return [f"{thread}, point {number}: {trial}" for thread, number, trial in struck if trial.wrong]


@pytest.mark.parametrize("course", [one_mention, a_join])
def test_a_process_may_die_before_and_behind_every_port_call(course: Course) -> None:
    assert broken(course, dies) == []


def test_a_process_may_die_while_a_tier_is_paused() -> None:
    assert broken(a_pause, dies, every=11) == []


@pytest.mark.parametrize("how", list(How))
def test_every_port_call_may_fail_before_in_the_middle_of_and_after_its_effect(how: How) -> None:
    assert broken(one_mention, fails(how), every=3) == []


def test_who_opens_the_tab_becomes_active_whatever_becomes_of_the_roll_up() -> None:
    """It dies, fails or sleeps past its lease, before and behind each of its calls; in the end its work is done."""
    strikes = [dies, sleeps, *map(fails, How)]
    struck = [one for strike in strikes for one in points(a_look(), strike, every=2, within="/rollup")]
    assert len(struck) > 50, "the course has hardly a point to strike at"
    assert [f"{thread}, point {number}: {done}" for thread, number, done in struck if done.wrong] == []


def test_every_thread_may_sleep_past_its_claims_and_leases_anywhere() -> None:
    assert broken(one_mention, sleeps, every=3) == []


def test_nothing_is_marked_as_seen_before_it_could_be_seen() -> None:
    assert [str(done) for done in sleeps_and_dies(watched()) if done.wrong] == []


def sleeps_and_dies(course: Script) -> Iterator[Trial]:
    """The pump sleeps longer than a page needs to settle, at each point of its coordinator, and never wakes up."""
    thread = "pump-1/celebrity"
    for n in range(len(trial(course).points[thread])):
        slept = Happening(point=(thread, n + 1), what=Stalled(name="pump-1", lasting=timedelta(seconds=4)))
        died = Happening(point=(thread, n + 2), what=dies(thread))
        yield trial(course.with_more(slept))
        yield trial(course.with_more(slept, died))
