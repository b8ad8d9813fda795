"""How every command behaves: an example, JSON where there are facts, plain text in a pipe, refusals in one line."""

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
from notifier.cli.commands.throttle import meant
from notifier.cli.group import Family
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.throttle import Throttle
from tests.cli.conftest import Notifier
from tests.cli.delivered import deliver
from tests.cli.terminal import drawn, drawn_by_each, plain
from tests.repo.sources import ROOT

WITHOUT_FACTS = {
    "up": "runs until it is stopped; its ready file is JSON",
    "api": "runs until it is stopped",
    "pump": "runs until it is stopped",
    "worker": "runs until it is stopped",
    "dump": "prints lines of JSON and nothing else",
    "flush": "does one thing, and finds nothing out",
    "fake": "`all` runs until it is stopped; the others have JSON",
    "services": "`up` and `down` do one thing each; `status` has JSON",
}
ESCAPE = "\x1b"
BOXES = re.compile("[\u2500-\u259f]")
BURST = "mention:nova#1"
SHOWS = [
    ("tab", "u7"),
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
    group: click.Group = main, before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command of the tree, groups too, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found
        yield (*before, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*before, name))


COMMANDS = dict(commands())
each_command = pytest.mark.parametrize(("words", "command"), COMMANDS.items(), ids=str)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, notifier: Notifier) -> Path:
    """A delivered burst, a throttle that holds p2, and a burst that it holds."""
    folder = tmp_path_factory.mktemp("world")
    for words in (
        ("fixture", "--followers", "2000", "--universe", "4000", "--celebrities", "2"),
        ("throttle", "set", "--tier", "p2", "--pause", "--for", "20m", "--reason", "the store is\x1b[31m busy \u202e"),
    ):
        assert notifier(*words, "--data", str(folder)).exit_code == 0
    deliver(folder, "nova", "u7")
    return folder


@pytest.fixture(scope="module")
def on_a_terminal(world: Path) -> dict[tuple[str, ...], str]:
    """What each verb shows on one that is 60 wide, and, asked for JSON, as JSON."""
    verbs = [*SHOWS, *((*words, "--json") for words in SHOWS if words[0] != "doctor")]
    return dict(zip(verbs, drawn_by_each([(*words, "--data", str(world)) for words in verbs], width=60), strict=True))


def piped(notifier: Notifier, folder: Path, *words: str) -> Result:
    return notifier(*words, "--data", str(folder), env={"FORCE_COLOR": "1", "TERM": "xterm-256color"})


@each_command
def test_every_help_shows_the_command_at_work(words: tuple[str, ...], command: click.Command) -> None:
    shown = command.get_help(click.Context(command, info_name=" ".join(("notifier", *words))))
    example = shown.partition("Example:")[2]
    assert f"notifier {' '.join(words)}" in example


@each_command
def test_every_option_says_what_it_means(words: tuple[str, ...], command: click.Command) -> None:
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    assert [each.opts[0] for each in options if not each.help] == []


def test_whatever_prints_facts_prints_json_too() -> None:
    with_json = {words for words, command in COMMANDS.items() if "--json" in opts(command)}
    verbs = {words for words, command in COMMANDS.items() if not isinstance(command, click.Group)}
    assert {words[0] for words in verbs - with_json} == WITHOUT_FACTS.keys()


def test_one_thing_has_one_option() -> None:
    """What takes a folder, a page or JSON is called the same everywhere."""
    names = {name for command in COMMANDS.values() for name in opts(command)}
    assert names & {"--folder", "--dir", "--directory", "--format", "--output", "--max", "--count", "--n"} == set()
    folders = {words for words, command in COMMANDS.items() if "--data" in opts(command)}
    verbs = {words for words, command in COMMANDS.items() if not isinstance(command, click.Group)}
    assert {words[0] for words in verbs - folders} == {
        "demo",
        "fake",
    }  # they make folders of their own, or need none


def opts(command: click.Command) -> set[str]:
    return {name for each in command.params for name in each.opts}


@pytest.mark.parametrize("words", SHOWS, ids=lambda words: str(words[0]))
def test_a_pipe_gets_plain_text_and_a_terminal_what_fits_it(
    words: tuple[str, ...], world: Path, notifier: Notifier, on_a_terminal: dict[tuple[str, ...], str]
) -> None:
    done = piped(notifier, world, *words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert ESCAPE not in done.stdout
    assert BOXES.findall(done.stdout) == []
    lines = plain(on_a_terminal[words]).splitlines()
    assert lines
    assert max(len(line) for line in lines) <= 60


def test_long_work_shows_how_far_it_is_where_somebody_watches_and_nowhere_else(
    tmp_path: Path, notifier: Notifier
) -> None:
    words = ("fixture", "--followers", "1000000", "--data")
    shown = " ".join(drawn((*words, str(tmp_path / "watched")), width=80, raw=True))
    assert shown.count("loading people") > 1
    assert "━" in shown
    ran = notifier(*words, str(tmp_path / "piped"))
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_what_people_wrote_does_not_steer_the_terminal(world: Path) -> None:
    command = [sys.executable, "-m", "notifier", "throttle", "list", "--data", str(world)]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "the store is\ufffd[31m busy \ufffd" in done.stdout
    assert ESCAPE not in done.stdout
    shown = " ".join(drawn(("throttle", "list", "--data", str(world)), width=200, raw=True))
    assert "\x1b[31m busy" not in shown
    assert "\u202e" not in shown


def test_no_color_leaves_no_colours_on_a_terminal(world: Path, on_a_terminal: dict[tuple[str, ...], str]) -> None:
    colours = re.compile(r"\x1b\[[\d;]*3\d")
    assert colours.search(on_a_terminal[("doctor",)])
    assert not colours.search(
        "".join(drawn(("doctor", "--data", str(world)), width=60, raw=True, env={"NO_COLOR": "1"}))
    )


def test_a_throttle_is_lifted_by_the_beginning_of_its_id(folder: Path, notifier: Notifier) -> None:
    words = ("throttle", "set", "--tier", "p2", "--pause", "--for", "1m", "--reason", "a", "--data", str(folder))
    assert notifier(*words).exit_code == 0
    shown = notifier("throttle", "list", "--data", str(folder)).stdout.splitlines()[1].split()[0]
    assert len(shown) == 8
    assert notifier("throttle", "lift", "", "--data", str(folder)).exit_code == 2
    assert notifier("throttle", "lift", shown, "--data", str(folder)).exit_code == 0
    assert notifier("throttle", "lift", shown, "--data", str(folder)).exit_code == 2


def test_lifting_a_tier_lifts_all_of_it_and_nothing_else(folder: Path, notifier: Notifier) -> None:
    for tier in ("p1", "p2", "p2"):
        words = ("--tier", tier, "--pause", "--for", "1m", "--reason", "a", "--data", str(folder))
        assert notifier("throttle", "set", *words).exit_code == 0
    lifted = json.loads(notifier("throttle", "lift", "p2", "--json", "--data", str(folder)).stdout)
    assert [each["tier"] for each in lifted] == ["p2", "p2"]
    states = [line.split()[1:4] for line in notifier("throttle", "list", "--data", str(folder)).stdout.splitlines()[1:]]
    assert sorted(states) == [["p1", "pause", "active"], ["p2", "pause", "ramping"], ["p2", "pause", "ramping"]]
    assert notifier("throttle", "lift", "p2", "--data", str(folder)).exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ledgr",), "There is no command 'ledgr'; did you mean 'ledger'? See `notifier --help`."),
        (("throttle", "lst"), "There is no command 'lst'; did you mean 'list'? See `notifier throttle --help`."),
        (("frobnicate",), "There is no command 'frobnicate'. See `notifier --help`."),
        (("tab", "u1", "--limt", "3"), "No such option '--limt'; did you mean '--limit'? See `notifier tab --help`."),
        (("tab",), "Missing argument 'USER'. See `notifier tab --help`."),
        (("--frob",), "No such option '--frob'. See `notifier --help`."),
        (
            ("throttle", "set", "--tier", "p9"),
            "Invalid value for '--tier': 'p9' is not one of 'p0', 'p1', 'p2'. See `notifier throttle set --help`.",
        ),
    ],
    ids=lambda each: str(each[0]),
)
def test_wrong_usage_is_one_line_on_standard_error(words: tuple[str, ...], said: str, notifier: Notifier) -> None:
    done = notifier(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_who_asks_for_nothing_gets_the_help(notifier: Notifier) -> None:
    assert "Commands:" in notifier().output
    assert "Commands:" in notifier("throttle").output


def test_no_command_is_cut_short_in_the_list() -> None:
    groups = [main, *(command for command in COMMANDS.values() if isinstance(command, click.Group))]
    assert [group.name for group in groups if not isinstance(group, Family)] == []
    assert [group.name for group in groups if "...\n" in listed(group)] == []


def listed(group: click.Group) -> str:
    return group.get_help(click.Context(group)).partition("Commands:")[2]


def test_the_help_tells_how_words_are_completed(notifier: Notifier) -> None:
    assert "_NOTIFIER_COMPLETE=bash_source" in notifier("--help").output


@pytest.mark.parametrize("words", [each for each in SHOWS if each[0] != "doctor"], ids=lambda words: str(words[0]))
def test_json_is_a_line_for_a_program_and_indented_for_a_person(
    words: tuple[str, ...], world: Path, notifier: Notifier, on_a_terminal: dict[tuple[str, ...], str]
) -> None:
    for_programs = piped(notifier, world, *words, "--json").stdout
    assert for_programs.count("\n") == 1
    if json.loads(for_programs):
        assert len(plain(on_a_terminal[(*words, "--json")]).splitlines()) > 1


def test_an_id_that_is_not_clear_lifts_nothing(folder: Path, notifier: Notifier) -> None:
    data = ("--data", str(folder))
    words = ("throttle", "set", "--tier", "p2", "--pause", "--for", "1m", "--reason", "a")
    made = json.loads(notifier(*words, *data, "--json").stdout)
    short = notifier("throttle", "lift", made["id"][:5], *data)
    assert (short.exit_code, "first 6 characters" in short.stderr) == (2, True)
    assert notifier("throttle", "lift", made["id"][:6], *data).exit_code == 0


def test_a_beginning_of_several_ids_is_refused_with_how_many() -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    first = Throttle(
        id="abcdef1",
        tier=Tier.P2,
        rate=None,
        reason="a",
        who="ada",
        starts_at=now,
        ends_at=now + timedelta(minutes=1),
    )
    known = [first, replace(first, id="abcdef12"), replace(first, id="abcdef3", ends_at=now)]
    with pytest.raises(click.UsageError, match="2 throttles begin with abcdef"):
        meant("abcdef", known, now)
    assert meant("abcdef1", known, now) == ["abcdef1"]
    assert meant("abcdef3", known, now) == []
