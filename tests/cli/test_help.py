"""Every verb says what it does and shows an example."""

import click
import pytest

from notifier.cli import PLACES, main
from notifier.cli.group import Verbs
from tests.cli.conftest import Notifier

GIVEN = [verb for verb in PLACES if verb in main.list_commands(click.Context(main))]
FAMILIES = {
    "throttle": ("set", "list", "lift"),
    "key": ("add", "list", "remove"),
    "push": ("test",),
    "fake": ("apns", "fcm", "webpush", "all"),
    "reach": ("set", "list", "show", "held", "release", "drop"),
}
VERBS = [
    *((verb,) for verb in GIVEN if verb not in FAMILIES),
    *((family, each) for family, verbs in FAMILIES.items() for each in verbs),
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(words: tuple[str, ...], notifier: Notifier) -> None:
    shown = notifier(*words, "--help")
    assert shown.exit_code == 0
    assert f"  notifier {' '.join(words)}" in shown.output


def test_the_help_lists_every_verb(notifier: Notifier) -> None:
    shown = notifier("--help").output
    assert [verb for verb in GIVEN if f"\n  {verb} " not in shown] == []


def test_an_unknown_verb_is_wrong_usage(notifier: Notifier) -> None:
    assert notifier("frobnicate").exit_code == 2


def test_a_verb_whose_module_is_missing_breaks_no_other() -> None:
    group = Verbs("notifier", places={"gone": "notifier.cli.nowhere:gone", "token": PLACES["token"]})
    assert group.list_commands(click.Context(group)) == ["token"]
    assert group.get_command(click.Context(group), "gone") is None
