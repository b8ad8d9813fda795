"""`notifier throttle` sets, lists and lifts throttles with operator, reason and end."""

import json
from pathlib import Path

import pytest

from notifier.cli.commands.throttle import user_name
from tests.cli.conftest import Notifier

SET = ("throttle", "set", "--tier", "p2", "--operator", "grace", "--reason", "the store is busy")


def test_throttle_is_listed_with_operator_reason_and_end(folder: Path, notifier: Notifier) -> None:
    result = notifier(*SET, "--rate", "20k", "--for", "20m", "--json", "--data", str(folder))
    [throttle] = json.loads(notifier("throttle", "list", "--json", "--data", str(folder)).output)
    assert throttle == json.loads(result.output)
    assert (throttle["tier"], throttle["rate"], throttle["state"]) == ("p2", 20_000, "active")
    assert (throttle["operator"], throttle["reason"]) == ("grace", "the store is busy")


def test_operator_defaults_to_system_user_without_environment(folder: Path, notifier: Notifier) -> None:
    options = ("--tier", "p2", "--pause", "--for", "20m", "--reason", "store upgrade", "--json", "--data", str(folder))
    result = notifier("throttle", "set", *options, env={"USER": None, "LOGNAME": None})
    assert result.exit_code == 0
    assert json.loads(result.output)["operator"] == user_name()


def test_lifted_throttle_ramps_up(folder: Path, notifier: Notifier) -> None:
    created = json.loads(notifier(*SET, "--pause", "--for", "2h", "--json", "--data", str(folder)).output)
    lift = ("throttle", "lift", created["id"], "--operator", "ada", "--data", str(folder))
    assert notifier(*lift).exit_code == 0
    [throttle] = json.loads(notifier("throttle", "list", "--json", "--data", str(folder)).output)
    assert (throttle["rate"], throttle["state"]) == (None, "ramping")
    assert notifier(*lift).exit_code == 2


@pytest.mark.parametrize(
    "options",
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
def test_incomplete_or_invalid_throttle_is_usage_error(
    options: tuple[str, ...], folder: Path, notifier: Notifier
) -> None:
    assert notifier(*SET, *options, "--data", str(folder)).exit_code == 2
    assert notifier("throttle", "list", "--data", str(folder)).output == "No tier is throttled.\n"


def test_blank_reason_is_usage_error(folder: Path, notifier: Notifier) -> None:
    arguments = ("throttle", "set", "--tier", "p0", "--pause", "--for", "1m", "--operator", "ada", "--reason", " ")
    assert notifier(*arguments, "--data", str(folder)).exit_code == 2
