"""`notifier throttle`: set, listed and lifted, with who, why and until when."""

import json
from pathlib import Path

import pytest

from notifier.cli.commands.throttle import me
from tests.cli.conftest import Notifier

SET = ("throttle", "set", "--tier", "p2", "--who", "grace", "--reason", "the store is busy")


def test_a_throttle_is_listed_with_who_why_and_until_when(folder: Path, notifier: Notifier) -> None:
    made = notifier(*SET, "--rate", "20k", "--for", "20m", "--json", "--data", str(folder))
    [listed] = json.loads(notifier("throttle", "list", "--json", "--data", str(folder)).output)
    assert listed == json.loads(made.output)
    assert (listed["tier"], listed["rate"], listed["state"]) == ("p2", 20_000, "active")
    assert (listed["who"], listed["reason"]) == ("grace", "the store is busy")


def test_where_the_environment_names_nobody_the_system_knows_who_it_is(folder: Path, notifier: Notifier) -> None:
    words = ("--tier", "p2", "--pause", "--for", "20m", "--reason", "store upgrade", "--json", "--data", str(folder))
    made = notifier("throttle", "set", *words, env={"USER": None, "LOGNAME": None})
    assert made.exit_code == 0
    assert json.loads(made.output)["who"] == me()


def test_a_lifted_throttle_ends_in_its_ramp(folder: Path, notifier: Notifier) -> None:
    made = json.loads(notifier(*SET, "--pause", "--for", "2h", "--json", "--data", str(folder)).output)
    lift = ("throttle", "lift", made["id"], "--who", "ada", "--data", str(folder))
    assert notifier(*lift).exit_code == 0
    [listed] = json.loads(notifier("throttle", "list", "--json", "--data", str(folder)).output)
    assert (listed["rate"], listed["state"]) == (None, "ramping")
    assert notifier(*lift).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--for", "20m"),
        ("--for", "20m", "--pause", "--rate", "1k"),
        ("--pause",),
        ("--for", "soon", "--pause"),
        ("--for", "20m", "--rate", "fast"),
        ("--for", "20m", "--rate", "0"),
        ("--for", "8d", "--pause"),
    ],
    ids=" ".join,
)
def test_half_a_throttle_is_wrong_usage(words: tuple[str, ...], folder: Path, notifier: Notifier) -> None:
    assert notifier(*SET, *words, "--data", str(folder)).exit_code == 2
    assert notifier("throttle", "list", "--data", str(folder)).output == "No tier is throttled.\n"


def test_a_reason_of_blanks_is_none(folder: Path, notifier: Notifier) -> None:
    words = ("throttle", "set", "--tier", "p0", "--pause", "--for", "1m", "--who", "ada", "--reason", " ")
    assert notifier(*words, "--data", str(folder)).exit_code == 2
