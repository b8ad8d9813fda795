"""Every command has help with an example."""

import click
import pytest

from notifier.cli import main
from notifier.cli.command_groups_and_errors import LazyCommands
from tests.cli.conftest import Notifier

COMMAND_NAMES = [name for name in main.locations if name in main.list_commands(click.Context(main))]
FAMILIES = {
    "throttle": ("set", "list", "lift"),
    "key": ("add", "list", "remove"),
    "push": ("test",),
    "fake": ("apns", "fcm", "webpush", "all"),
    "reach": ("set", "list", "show", "held", "release", "drop"),
}
COMMANDS = [
    *((name,) for name in COMMAND_NAMES if name not in FAMILIES),
    *((family, name) for family, names in FAMILIES.items() for name in names),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_of_command_shows_an_example(arguments: tuple[str, ...], notifier: Notifier) -> None:
    shown = notifier(*arguments, "--help")
    assert shown.exit_code == 0
    assert f"  notifier {' '.join(arguments)}" in shown.output


def test_help_lists_every_command(notifier: Notifier) -> None:
    shown = notifier("--help").output
    assert [name for name in COMMAND_NAMES if f"\n    {name} " not in shown] == []


def test_unknown_command_is_usage_error(notifier: Notifier) -> None:
    assert notifier("frobnicate").exit_code == 2


def test_command_with_missing_module_breaks_no_other() -> None:
    group = LazyCommands(
        "notifier", sections={"Inspect": {"gone": "notifier.cli.nowhere:gone", "token": main.locations["token"]}}
    )
    assert group.list_commands(click.Context(group)) == ["token"]
    assert group.get_command(click.Context(group), "gone") is None
