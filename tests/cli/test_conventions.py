"""Conventions of all commands: help examples, JSON, plain text in pipes, one-line errors."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import Result

from notifier.cli import main
from notifier.cli.command_groups_and_errors import CommandGroup
from notifier.cli.commands.throttle import selected_throttle_ids
from notifier.cli.options import AccountParam
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from tests.cli.conftest import Notifier
from tests.cli.in_process_delivery import deliver_mention
from tests.cli.terminal import run_all_in_terminal, run_in_terminal, without_colors
from tests.repo.repository_files import ROOT

WITHOUT_JSON = {
    "up": "runs until it is stopped; its ready file is JSON",
    "api": "runs until it is stopped",
    "pump": "runs until it is stopped",
    "worker": "runs until it is stopped",
    "dump": "prints lines of JSON and nothing else",
    "flush": "does one thing, and reports nothing",
    "fake": "`all` runs until it is stopped; the other commands have JSON",
    "services": "`up` and `down` do one thing each; `status` has JSON",
}
ACCOUNTS = {"account", "accounts", "author", "blocked", "blocker", "followed", "follower", "mentioned", "user"}
"""Names of parameters that are accounts."""
ESCAPE = "\x1b"
BOXES = re.compile("[\u2500-\u259f]")
BURST = "mention:nova#1"
REPORTING = [
    ("inbox", "u7"),
    ("audience", "@nova"),
    ("ledger", BURST),
    ("explain", BURST, "u42"),
    ("throttle", "list"),
    ("deadletters",),
    ("deadletters", "lanes"),
    ("doctor",),
    ("top", "--once", "--every", "0.05"),
]


def commands(
    group: click.Group = main, parents: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command and group of the tree with the arguments that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield (*parents, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*parents, name))


COMMANDS = dict(commands())
with_every_command = pytest.mark.parametrize(("arguments", "command"), COMMANDS.items(), ids=str)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, notifier: Notifier) -> Path:
    """A delivered burst, a throttle that holds p2, and a burst that it holds."""
    folder = tmp_path_factory.mktemp("world")
    for arguments in (
        ("fixture", "--followers", "2000", "--universe", "4000", "--celebrities", "2"),
        ("throttle", "set", "--tier", "p2", "--pause", "--for", "20m", "--reason", "the store is\x1b[31m busy \u202e"),
    ):
        assert notifier(*arguments, "--data", str(folder)).exit_code == 0
    deliver_mention(folder, "nova", "u7")
    return folder


@pytest.fixture(scope="module")
def terminal_output(world: Path) -> dict[tuple[str, ...], str]:
    """Return the output of each command, and of its JSON form, on a terminal of 60 columns."""
    invocations = [*REPORTING, *((*arguments, "--json") for arguments in REPORTING if arguments[0] != "doctor")]
    return dict(
        zip(
            invocations,
            run_all_in_terminal([(*arguments, "--data", str(world)) for arguments in invocations], width=60),
            strict=True,
        )
    )


def piped(notifier: Notifier, folder: Path, *arguments: str) -> Result:
    return notifier(*arguments, "--data", str(folder), env={"FORCE_COLOR": "1", "TERM": "xterm-256color"})


@with_every_command
def test_every_help_has_an_example(arguments: tuple[str, ...], command: click.Command) -> None:
    help_text = command.get_help(click.Context(command, info_name=" ".join(("notifier", *arguments))))
    example = help_text.partition("Example:")[2]
    assert f"notifier {' '.join(arguments)}" in example


@with_every_command
def test_every_option_has_help(arguments: tuple[str, ...], command: click.Command) -> None:
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.opts[0] for option in options if not option.help] == []


def test_every_account_may_begin_with_at(world: Path, notifier: Notifier) -> None:
    parameters = [(arguments, parameter) for arguments, command in COMMANDS.items() for parameter in command.params]
    accounts = [entry for entry in parameters if entry[1].name in ACCOUNTS]
    assert len(accounts) > 20
    assert [entry for entry in accounts if not isinstance(entry[1].type, AccountParam)] == []
    assert notifier("inbox", "@u7", "--data", str(world)).output == notifier("inbox", "u7", "--data", str(world)).output


def test_every_reporting_command_has_json() -> None:
    with_json = {arguments for arguments, command in COMMANDS.items() if "--json" in opts(command)}
    leaves = {arguments for arguments, command in COMMANDS.items() if not isinstance(command, click.Group)}
    assert {arguments[0] for arguments in leaves - with_json} == WITHOUT_JSON.keys()


def test_same_thing_has_the_same_option_everywhere() -> None:
    """Options for a folder, a page size and JSON have the same names in all commands."""
    names = {name for command in COMMANDS.values() for name in opts(command)}
    assert names & {"--folder", "--dir", "--directory", "--format", "--output", "--max", "--count", "--n"} == set()
    folders = {arguments for arguments, command in COMMANDS.items() if "--data" in opts(command)}
    leaves = {arguments for arguments, command in COMMANDS.items() if not isinstance(command, click.Group)}
    assert {arguments[0] for arguments in leaves - folders} == {
        "demo",
        "fake",
    }  # demos create their own folders; fakes need none


def opts(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("arguments", REPORTING, ids=lambda arguments: str(arguments[0]))
def test_pipe_gets_plain_text_and_terminal_fitting_lines(
    arguments: tuple[str, ...], world: Path, notifier: Notifier, terminal_output: dict[tuple[str, ...], str]
) -> None:
    result = piped(notifier, world, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert ESCAPE not in result.stdout
    assert BOXES.findall(result.stdout) == []
    lines = without_colors(terminal_output[arguments]).splitlines()
    assert lines
    assert max(len(line) for line in lines) <= 60


def test_progress_is_shown_on_terminals_only(tmp_path: Path, notifier: Notifier) -> None:
    arguments = ("fixture", "--followers", "1000000", "--data")
    shown = " ".join(run_in_terminal((*arguments, str(tmp_path / "watched")), width=80, raw=True))
    assert shown.count("loading users") > 1
    assert "━" in shown
    result = notifier(*arguments, str(tmp_path / "piped"))
    assert (result.exit_code, result.stderr) == (0, "")


def test_user_text_does_not_control_the_terminal(world: Path) -> None:
    command = [sys.executable, "-m", "notifier", "throttle", "list", "--data", str(world)]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "the store is\ufffd[31m busy \ufffd" in result.stdout
    assert ESCAPE not in result.stdout
    shown = " ".join(run_in_terminal(("throttle", "list", "--data", str(world)), width=200, raw=True))
    assert "\x1b[31m busy" not in shown
    assert "\u202e" not in shown


def test_no_color_removes_colors_on_terminal(world: Path, terminal_output: dict[tuple[str, ...], str]) -> None:
    colors = re.compile(r"\x1b\[[\d;]*3\d")
    assert colors.search(terminal_output[("doctor",)])
    assert not colors.search(
        "".join(run_in_terminal(("doctor", "--data", str(world)), width=60, raw=True, env={"NO_COLOR": "1"}))
    )


def test_throttle_is_lifted_by_prefix_of_its_id(folder: Path, notifier: Notifier) -> None:
    arguments = ("throttle", "set", "--tier", "p2", "--pause", "--for", "1m", "--reason", "a", "--data", str(folder))
    assert notifier(*arguments).exit_code == 0
    prefix = notifier("throttle", "list", "--data", str(folder)).stdout.splitlines()[1].split()[0]
    assert len(prefix) == 8
    assert notifier("throttle", "lift", "", "--data", str(folder)).exit_code == 2
    assert notifier("throttle", "lift", prefix, "--data", str(folder)).exit_code == 0
    assert notifier("throttle", "lift", prefix, "--data", str(folder)).exit_code == 2


def test_lifting_tier_lifts_only_its_throttles(folder: Path, notifier: Notifier) -> None:
    for tier in ("p1", "p2", "p2"):
        options = ("--tier", tier, "--pause", "--for", "1m", "--reason", "a", "--data", str(folder))
        assert notifier("throttle", "set", *options).exit_code == 0
    lifted = json.loads(notifier("throttle", "lift", "p2", "--json", "--data", str(folder)).stdout)
    assert [throttle["tier"] for throttle in lifted] == ["p2", "p2"]
    states = [line.split()[1:4] for line in notifier("throttle", "list", "--data", str(folder)).stdout.splitlines()[1:]]
    assert sorted(states) == [["p1", "pause", "active"], ["p2", "pause", "ramping"], ["p2", "pause", "ramping"]]
    assert notifier("throttle", "lift", "p2", "--data", str(folder)).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ledgr",), "Unknown command 'ledgr'; did you mean 'ledger'? See `notifier --help`."),
        (("throttle", "lst"), "Unknown command 'lst'; did you mean 'list'? See `notifier throttle --help`."),
        (("frobnicate",), "Unknown command 'frobnicate'. See `notifier --help`."),
        (
            ("inbox", "u1", "--limt", "3"),
            "No such option '--limt'; did you mean '--limit'? See `notifier inbox --help`.",
        ),
        (("inbox",), "Missing argument 'USER'. See `notifier inbox --help`."),
        (("inbox", "@"), "Invalid value for 'USER': an account is missing after @. See `notifier inbox --help`."),
        (("--frob",), "No such option '--frob'. See `notifier --help`."),
        (
            ("throttle", "set", "--tier", "p9"),
            "Invalid value for '--tier': 'p9' is not one of 'p0', 'p1', 'p2'. See `notifier throttle set --help`.",
        ),
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_usage_error_is_one_line_on_stderr(arguments: tuple[str, ...], message: str, notifier: Notifier) -> None:
    result = notifier(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{message}\n")


def test_group_without_command_prints_help(notifier: Notifier) -> None:
    assert "Commands:" in notifier().output
    assert "Commands:" in notifier("throttle").output


def test_command_summaries_are_not_truncated_in_help() -> None:
    groups = [main, *(command for command in COMMANDS.values() if isinstance(command, click.Group))]
    assert [group.name for group in groups if not isinstance(group, CommandGroup)] == []
    assert [group.name for group in groups if "...\n" in listing(group)] == []


def listing(group: click.Group) -> str:
    return group.get_help(click.Context(group)).partition("Commands:")[2]


def test_help_explains_shell_completion(notifier: Notifier) -> None:
    assert "_NOTIFIER_COMPLETE=bash_source" in notifier("--help").output


@pytest.mark.parametrize(
    "arguments", [command for command in REPORTING if command[0] != "doctor"], ids=lambda arguments: str(arguments[0])
)
def test_json_is_one_line_in_pipe_and_indented_on_terminal(
    arguments: tuple[str, ...], world: Path, notifier: Notifier, terminal_output: dict[tuple[str, ...], str]
) -> None:
    for_programs = piped(notifier, world, *arguments, "--json").stdout
    assert for_programs.count("\n") == 1
    if json.loads(for_programs):
        assert len(without_colors(terminal_output[(*arguments, "--json")]).splitlines()) > 1


def test_too_short_id_prefix_lifts_nothing(folder: Path, notifier: Notifier) -> None:
    data = ("--data", str(folder))
    arguments = ("throttle", "set", "--tier", "p2", "--pause", "--for", "1m", "--reason", "a")
    throttle = json.loads(notifier(*arguments, *data, "--json").stdout)
    short = notifier("throttle", "lift", throttle["id"][:5], *data)
    assert (short.exit_code, "first 6 characters" in short.stderr) == (2, True)
    assert notifier("throttle", "lift", throttle["id"][:6], *data).exit_code == 0


def test_ambiguous_id_prefix_is_refused_with_count() -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    first = Throttle(
        id="abcdef1",
        tier=Tier.P2,
        rate=None,
        reason="a",
        operator="ada",
        starts_at=now,
        ends_at=now + timedelta(minutes=1),
    )
    known = [first, replace(first, id="abcdef12"), replace(first, id="abcdef3", ends_at=now)]
    with pytest.raises(click.UsageError, match="2 throttles begin with abcdef"):
        selected_throttle_ids("abcdef", known, now)
    assert selected_throttle_ids("abcdef1", known, now) == ["abcdef1"]
    assert selected_throttle_ids("abcdef3", known, now) == []
