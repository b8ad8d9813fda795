"""The simulator itself: it repeats itself, does what it is told, and really opens tabs."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

from tests.repo.sources import ROOT
from tests.support.simulator.random_script import scripted
from tests.support.simulator.run import Trial, shortest, trial
from tests.support.simulator.scenarios.catalog import one_mention
from tests.support.simulator.script import Changed, Happening, Killed, Opened, Script, Tweeted


def test_the_same_script_has_the_same_story() -> None:
    first, second = trial(scripted(11)), trial(scripted(11))
    assert first.points == second.points
    assert first.story == second.story


def test_the_same_seed_is_the_same_run_in_every_process() -> None:
    """What fails in one is found again in the next: nothing goes by the order of a set of words."""
    told = [
        "from tests.support.simulator.scenarios.catalog import a_crossing, a_graph",
        "from tests.support.simulator.run import trial",
        "print([trial(course()).points for course in (a_crossing, a_graph)])",
    ]
    runs = [
        subprocess.run(
            [sys.executable, "-c", "\n".join(told)],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "3")
    ]
    assert runs[0] == runs[1]


def test_another_seed_orders_the_same_course_otherwise() -> None:
    course = one_mention()
    assert trial(course).points != trial(replace(course, seed=2)).points


def test_a_killed_process_starts_again_and_finishes_the_work() -> None:
    killed = Happening(step=40, what=Killed(process="pump-1", back_after=timedelta(seconds=1)))
    done = trial(one_mention().with_more(killed))
    told = [text for _, _, text in done.story]
    assert any(text.startswith("pump-1 is killed") for text in told)
    assert "pump-1 starts again" in told
    assert not done.wrong


def test_tabs_are_opened_while_things_happen() -> None:
    assert trial(one_mention()).visits == 2


def test_the_shortest_story_leaves_out_what_does_not_matter() -> None:
    needed = Happening(step=3, what=Tweeted(id="e1", author="ada", mentioned=("nova",)))
    idle = Happening(step=5, what=Changed(person="pat", what="push"))
    opened = Happening(step=9, what=Opened(person="kim"))

    def judged(script: Script) -> Trial:
        done = trial(script)
        return replace(done, wrong=["for a test"] if needed in script.happenings else [])

    script = Script(seed=1, steps=50, happenings=[idle, needed, opened], workers=2)
    found = shortest(judged(script), play=judged)
    assert list(found.script.happenings) == [needed]
    assert found.script.workers == 1
