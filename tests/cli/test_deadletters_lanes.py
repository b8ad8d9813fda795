"""`notifier deadletters lanes` and `resume`: stopped lanes, and how operators resume them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from notifier import topics
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.dead_letters import SqliteDeadLetterTallies
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import audit_entries
from notifier.cli.commands.import_.loader import IndexerBacklog, run_indexer
from notifier.cli.running_service import OutageRetry
from notifier.config import Settings
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, Death, LaneStop, LimitKind
from notifier.domain.errors import LaneStopped
from notifier.domain.upstream.validation import FOLLOWED_TYPE
from notifier.topics import PROCESSING_LANES
from tests.cli.conftest import Notifier
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import Stage

DEATHS = tuple(Death(record=f"mentions/0/{number}", position=number) for number in range(1, 4))
TALLY = DeadLetterTally(lane="mentions", version=1, seen=3, in_a_row=3, deaths=DEATHS)
STOP = LaneStop(
    at=START, stopped_by="pump-1", kind=LimitKind.IN_A_ROW, limit=3, record="mentions/0/4", cause="KeyError: 'tweet'"
)


@contextmanager
def tallies(folder: Path) -> Iterator[SqliteDeadLetterTallies]:
    files = Files.at(folder)
    try:
        yield SqliteDeadLetterTallies(files.core)
    finally:
        files.close()


@pytest.fixture
def stopped(folder: Path) -> Path:
    with tallies(folder) as stored:
        stored.compare_and_set(TALLY)
        stored.compare_and_set(replace(TALLY, version=2, stop=STOP))
    return folder


def run_json(notifier: Notifier, folder: Path, *arguments: str) -> Any:
    result = notifier("deadletters", *arguments, "--json", "--data", str(folder))
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_lane_is_listed_with_its_deaths(stopped: Path, notifier: Notifier) -> None:
    facts = run_json(notifier, stopped, "lanes")
    assert [lane["lane"] for lane in facts] == list(PROCESSING_LANES)
    assert facts[0] == {
        "lane": "mentions",
        "state": "stopped",
        "in_a_row": 3,
        "in_window": 3,
        "since": "2026-01-05T12:00:00.000Z",
        "limit": "in_a_row",
        "reason": "more than 3 dead letters in a row",
        "record": "mentions/0/4",
        "cause": "KeyError: 'tweet'",
        "stopped_by": "pump-1",
    }
    assert {lane["state"] for lane in facts[1:]} == {"running"}


def test_lanes_are_printed_as_table_in_pipe(stopped: Path, notifier: Notifier) -> None:
    lines = notifier("deadletters", "lanes", "--data", str(stopped)).stdout.splitlines()
    assert lines[1].split()[:6] == ["mentions", "stopped", "3", "3", "2026-01-05T12:00:00.000Z", "more"]
    assert lines[1].endswith("mentions/0/4  KeyError: 'tweet'")
    assert len(lines) == 1 + len(PROCESSING_LANES)


def test_resume_ends_stop_and_reports_it(stopped: Path, notifier: Notifier) -> None:
    arguments = ("mentions", "--reason", "release 42", "--operator", "ada")
    facts = run_json(notifier, stopped, "resume", *arguments)
    assert (facts["lane"], facts["resumed"], facts["record"]) == ("mentions", True, "mentions/0/4")
    assert {lane["state"] for lane in run_json(notifier, stopped, "lanes")} == {"running"}
    files = Files.at(stopped)
    [entry] = [json.loads(body) for body, _ in audit_entries(files.core)]
    files.close()
    assert (entry["operator"], entry["action"], entry["reason"]) == ("ada", "lane.resume", "release 42")


def test_resume_in_pipe_prints_sentence_and_facts(stopped: Path, notifier: Notifier) -> None:
    output = notifier("deadletters", "resume", "mentions", "--reason", "release 42", "--data", str(stopped)).stdout
    assert output.startswith("Lane mentions resumes within a second.\n")
    assert "more than 3 dead letters in a row" in output


def test_running_lane_is_not_resumed(stopped: Path, notifier: Notifier) -> None:
    assert run_json(notifier, stopped, "resume", "p1", "--reason", "fixed")["resumed"] is False
    output = notifier("deadletters", "resume", "p1", "--reason", "fixed", "--data", str(stopped))
    assert (output.exit_code, output.stdout) == (0, "Lane p1 is not stopped.\n")
    with tallies(stopped) as stored:
        assert stored.read(["mentions"])["mentions"].stop == STOP


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("mentions",), "Missing option '--reason'"),
        (("mentions", "--reason", " "), "--reason must not be empty"),
        (("mention", "--reason", "fixed"), "'mention' is not one of 'mentions', "),
    ],
    ids=["no reason", "empty reason", "unknown lane"],
)
def test_resume_requires_lane_and_reason(
    stopped: Path, notifier: Notifier, arguments: tuple[str, ...], output: str
) -> None:
    result = notifier("deadletters", "resume", *arguments, "--data", str(stopped))
    assert (result.exit_code, output in result.stderr) == (2, True)
    with tallies(stopped) as stored:
        assert stored.read(["mentions"])["mentions"].stop == STOP


def test_import_into_stopped_lane_ends_with_one_sentence() -> None:
    stage = Stage()
    stage.send_event(FOLLOWED_TYPE, follower="kim", followed="nova", sequence=99)
    stage.state.lane_tallies.compare_and_set(DeadLetterTally(lane=topics.FOLLOWS, version=1, stop=STOP))
    backlog = IndexerBacklog(stage.state.log, topics.FOLLOWS)
    with pytest.raises(LaneStopped, match=r"resume` starts it again\. Lane: follows"):
        run_indexer(stage.ports, Settings(), backlog, OutageRetry(), lambda _: None)
    assert backlog.has_unprocessed()


def test_data_option_before_subcommand_is_refused(stopped: Path, notifier: Notifier) -> None:
    result = notifier("deadletters", "--data", str(stopped), "lanes")
    assert (result.exit_code, result.stderr) == (
        2,
        "Put the options after lanes. See `notifier deadletters --help`.\n",
    )
