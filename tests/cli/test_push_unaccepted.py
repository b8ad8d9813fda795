"""`explain` describes alerts that no phone has accepted, as far as is known."""

from dataclasses import replace
from datetime import time

from notifier.cli.commands.explain.push import AlertState, ExplainRule
from notifier.cli.commands.explain.text import WORDS, alert_words
from notifier.domain.delivery.ledger import Fact
from notifier.domain.push.send_log import AlertOutcome
from notifier.domain.users.account_preferences import Overall
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.visibility import Unpushed
from tests.cli.test_push_facts import (
    FIRST_TRY,
    LATER,
    NIGHT,
    OTHER_PHONE,
    PHONE,
    PUSH_SLICE,
    alerting_of,
    case,
    failed_attempt,
    seen_by,
    window,
)
from tests.support.examples import MINUTE, NOON, entry

NAP = Overall(quiet=Hours(start=time(11), end=time(12, 10)))
"""It ends at a quarter past, when deferred slices wake."""


def test_unaccepted_alert_is_not_explained_as_sent() -> None:
    refused = failed_attempt(AlertOutcome.RETRY, after=MINUTE)
    alerting = alerting_of(case(window(missed=(refused,))))
    assert alert_words(alerting).startswith(
        "tried at 2026-01-05T12:00:00.000Z, and again at 2026-01-05T12:01:00.000Z; "
    )
    for possibly_accepted in (
        case(window(missed=(failed_attempt(AlertOutcome.UNKNOWN, after=MINUTE),))),
        case(window(missed=(refused,)), devices=[PHONE, OTHER_PHONE]),
    ):
        assert alert_words(alerting_of(possibly_accepted)).startswith("sent at 2026-01-05T12:00:00.000Z, and again at ")


def test_held_alert_waits_for_provider_and_is_not_sent() -> None:
    held = failed_attempt(AlertOutcome.HELD, to=replace(FIRST_TRY, tries=0), after=MINUTE)
    waits = entry(PUSH_SLICE, Fact.WAITS, n=1, at=LATER)
    alerting = alerting_of(case(window(missed=(held,)), entries=[waits]))
    assert (alerting.told, alerting.rule, alerting.until, alerting.at) == (
        AlertState.WAITING,
        ExplainRule.PROVIDER,
        LATER,
        None,
    )
    assert [device.fate for device in alerting.devices] == [AlertOutcome.HELD]
    late = alerting_of(case(window(missed=(held,)), entries=[entry(PUSH_SLICE, Fact.PULLED)]))
    assert (late.told, late.rule) == (AlertState.NEVER, ExplainRule.LATE)
    assert alerting_of(case(window(missed=(held,)), devices=[PHONE, OTHER_PHONE])).told is AlertState.AGAIN


def test_retry_in_quiet_hours_is_sent_if_they_end_in_time() -> None:
    busy = window(missed=(failed_attempt(AlertOutcome.RETRY, after=MINUTE),))
    alerting = alerting_of(case(busy, overall=NAP))
    assert (alerting.told, alerting.until) == (AlertState.AGAIN, NOON + 15 * MINUTE)
    alerting = alerting_of(case(busy, overall=NIGHT))
    assert (alerting.told, alerting.until, [device.until for device in alerting.devices]) == (
        AlertState.TRIED,
        None,
        [None],
    )
    assert f"and not again: {WORDS[ExplainRule.QUIET_HOURS]}" in alert_words(alerting)
    seen = alerting_of(seen_by(case(busy, overall=NIGHT)))
    assert (seen.told, seen.rule) == (AlertState.TRIED, Unpushed.SEEN)


def test_reason_that_is_a_sentence_loses_its_full_stop() -> None:
    clock_ahead = replace(failed_attempt(AlertOutcome.RETRY, after=MINUTE), reason="This machine's clock is ahead.")
    assert "clock is ahead, 1 try, again at " in alert_words(alerting_of(case(window(missed=(clock_ahead,)))))
