"""The simulator is deterministic, follows its script and opens inboxes."""

import inspect
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import get_type_hints

from notifier.ports.all_ports import Ports, ReadPorts
from notifier.ports.event_log_and_dead_letters import Consumer
from tests.repo.repository_files import ROOT
from tests.support.fakes.epochs_leases_queues_throttles import MemoryQueue
from tests.support.simulator.port_proxy import SPLIT, WITHOUT_EFFECT
from tests.support.simulator.random_script import random_script
from tests.support.simulator.run_and_shorten import Trial, shortened, trial
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import IDLE, one_mention
from tests.support.simulator.script import Changed, Killed, Opened, Script, ScriptEntry, Tweeted


def test_calls_named_by_the_simulator_exist() -> None:
    """After a rename, an idle call would be a crash point, and a call that can be divided would not be divided."""
    types = {**get_type_hints(ReadPorts), **get_type_hints(Ports), "consumer": Consumer, "queue": MemoryQueue}
    calls = {(port, name) for port, kind in types.items() for name, _ in inspect.getmembers(kind, inspect.isfunction)}
    assert [label for label in IDLE if tuple(label.split(".")) not in calls] == []
    assert {*SPLIT, *WITHOUT_EFFECT} <= {name for _, name in calls}


def test_same_script_gives_same_story() -> None:
    first, second = trial(random_script(11)), trial(random_script(11))
    assert first.points == second.points
    assert first.story == second.story


def test_same_seed_gives_same_run_in_every_process() -> None:
    """A failure in one process is reproduced in the next: nothing depends on the order of a set of strings."""
    program = [
        "from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import lane_changes, graph_changes",
        "from tests.support.simulator.run_and_shorten import trial",
        "print([trial(scenario()).points for scenario in (lane_changes, graph_changes)])",
    ]
    runs = [
        subprocess.run(
            [sys.executable, "-c", "\n".join(program)],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "3")
    ]
    assert runs[0] == runs[1]


def test_other_seed_orders_same_scenario_differently() -> None:
    scenario = one_mention()
    assert trial(scenario).points != trial(replace(scenario, seed=2)).points


def test_killed_process_restarts_and_finishes_its_work() -> None:
    killed = ScriptEntry(step=40, what=Killed(process="pump-1", back_after=timedelta(seconds=1)))
    result = trial(one_mention().with_more(killed))
    story = [text for _, _, text in result.story]
    assert any(text.startswith("pump-1 is killed") for text in story)
    assert "pump-1 starts again" in story
    assert not result.wrong


def test_inboxes_are_opened_during_the_run() -> None:
    assert trial(one_mention()).visit_count == 2


def test_shortest_story_omits_irrelevant_steps() -> None:
    needed = ScriptEntry(step=3, what=Tweeted(id="e1", author="ada", mentioned=("nova",)))
    idle = ScriptEntry(step=5, what=Changed(person="pat", what="push"))
    opened = ScriptEntry(step=9, what=Opened(person="kim"))

    def judged(script: Script) -> Trial:
        result = trial(script)
        return replace(result, wrong=["for a test"] if needed in script.entries else [])

    script = Script(seed=1, steps=50, entries=[idle, needed, opened], workers=2)
    shortest_trial = shortened(judged(script), play=judged)
    assert list(shortest_trial.script.entries) == [needed]
    assert shortest_trial.script.workers == 1
