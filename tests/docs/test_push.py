"""The tables of what providers answer are those that the code goes by."""

import re

import pytest

from notifier.adapters.push.apns import responses as apns_answers
from notifier.adapters.push.fcm import responses as fcm_answers
from notifier.cli.commands.explain.push import AlertState, ExplainRule
from notifier.domain.push.send_log import AlertOutcome, Why
from notifier.domain.push.translations import PHRASES
from notifier.domain.users.visibility import Unpushed
from tests.docs.pages import Page

PUSH = Page("docs/push.md")


def told(table: str, receipt: str) -> set[str]:
    """The words in the rows with this receipt, in the first place or a later one."""
    rows = [row for row in PUSH.table(table) if receipt in row[1].lower()]
    return {word for answers, _ in rows for word in re.findall(r"`([A-Za-z_]+)`", answers)}


@pytest.mark.parametrize(
    ("receipt", "reasons"),
    [
        ("drop", apns_answers.DROPS),
        ("retry", apns_answers.AGAIN),
        ("configuration error", set(apns_answers.CONFIGURES)),
    ],
)
def test_apple_s_answers_are_told_as_they_are_taken(receipt: str, reasons: set[str]) -> None:
    assert told("Apple answers", receipt) == reasons


def test_google_s_answers_are_told_as_they_are_taken() -> None:
    assert told("Google answers", "drop") == {*fcm_answers.DROPS, "INVALID_ARGUMENT"}
    assert told("Google answers", "configuration error") == {*fcm_answers.CONFIGURES, "invalid_grant"}


def test_what_to_look_at_is_told_of_words_that_a_reason_begins_with() -> None:
    words = [word.strip("`") for word, _ in PUSH.table("the reason begins with")]
    assert set(words) <= {*apns_answers.CONFIGURES, *fcm_answers.CONFIGURES, "invalid_grant", "no credentials"}
    assert len(words) >= 8


def test_every_language_is_named() -> None:
    named = re.findall(r"[A-Z]\w+", PUSH.text.partition("Languages: ")[2].partition(";")[0])
    assert len(named) == len({language.partition("-")[0] for language in PHRASES})


def test_what_explain_says_of_an_alert_is_told_word_for_word() -> None:
    states = PUSH.table("`state`")
    words = {word for row in states for word in re.findall(r"`([a-z_]+)`", row[1])}
    assert [state.strip("`") for state, *_ in states] == list(AlertState)
    assert {*Why, *Unpushed, *ExplainRule} <= words
    [devices] = [row[1] for row in PUSH.table("member") if row[0] == "`devices`"]
    assert set(AlertOutcome) <= set(re.findall(r"`([a-z_]+)`", devices))
