"""The tables of provider responses in docs/push.md match the code."""

import re

import pytest

from notifier.adapters.push.apns import responses as apns_responses
from notifier.adapters.push.fcm import responses as fcm_responses
from notifier.cli.commands.explain.alerts import AlertState, ExplainRule
from notifier.domain.push.send_log import AlertOutcome, SilentReason
from notifier.domain.push.translations import PHRASES_BY_LANGUAGE
from notifier.domain.users.visibility import SuppressionReason
from tests.docs.document_pages import Page

PUSH = Page("docs/push.md")


def documented_reasons(table: str, receipt: str) -> set[str]:
    """Return the reasons in the rows with this receipt."""
    rows = [row for row in PUSH.table(table) if receipt in row[1].lower()]
    return {reason for reasons, _ in rows for reason in re.findall(r"`([A-Za-z_]+)`", reasons)}


@pytest.mark.parametrize(
    ("receipt", "reasons"),
    [
        ("drop", apns_responses.INVALID_TOKEN_REASONS),
        ("retry", apns_responses.RETRYABLE_REASONS),
        ("configuration error", set(apns_responses.CONFIGURATION_ERRORS)),
    ],
)
def test_apple_reasons_are_documented_with_their_receipts(receipt: str, reasons: set[str]) -> None:
    assert documented_reasons("Apple answers", receipt) == reasons


def test_google_reasons_are_documented_with_their_receipts() -> None:
    assert documented_reasons("Google answers", "drop") == {*fcm_responses.INVALID_TARGETS, "INVALID_ARGUMENT"}
    assert documented_reasons("Google answers", "configuration error") == {
        *fcm_responses.CONFIGURATION_ERRORS,
        "invalid_grant",
    }


def test_documented_reason_prefixes_exist() -> None:
    prefixes = [prefix.strip("`") for prefix, _ in PUSH.table("the reason begins with")]
    assert set(prefixes) <= {
        *apns_responses.CONFIGURATION_ERRORS,
        *fcm_responses.CONFIGURATION_ERRORS,
        "invalid_grant",
        "no credentials",
    }
    assert len(prefixes) >= 8


def test_as_many_languages_are_listed_as_are_translated() -> None:
    named = re.findall(r"[A-Z]\w+", PUSH.text.partition("Languages: ")[2].partition(";")[0])
    assert len(named) == len({language.partition("-")[0] for language in PHRASES_BY_LANGUAGE})


def test_alert_states_of_explain_are_documented() -> None:
    states = PUSH.table("`state`")
    reasons = {reason for row in states for reason in re.findall(r"`([a-z_]+)`", row[1])}
    assert [state.strip("`") for state, *_ in states] == list(AlertState)
    assert {*SilentReason, *SuppressionReason, *ExplainRule} <= reasons
    devices = {row[0].strip("`") for row in PUSH.table("`state` of a device")}
    assert set(AlertOutcome) <= devices
