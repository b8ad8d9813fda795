"""`explain` describes alerts that no phone has accepted, as far as is known."""

from dataclasses import replace
from datetime import time

from notifier.cli.commands.explain.alert_and_digest_text import REASON_TEXTS, alert_text
from notifier.cli.commands.explain.alerts import AlertState, ExplainRule
from notifier.domain.delivery.ledger import Fact
from notifier.domain.push.send_log import AlertOutcome
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.visibility import SuppressionReason
from tests.cli.test_explain_alerts import (
    FIRST_TRY,
    LATER,
    NIGHT,
    OTHER_PHONE,
    PHONE,
    PUSH_SLICE,
    batch,
    case,
    explained_alert,
    failed_attempt,
    seen_by,
)
from tests.support.domain_examples import MINUTE, NOON, entry

NAP = AccountPreferences(quiet=QuietHours(start=time(11), end=time(12, 10)))
"""It ends at a quarter past, when deferred slices wake."""


def test_unaccepted_alert_is_not_explained_as_sent() -> None:
    refused = failed_attempt(AlertOutcome.RETRY, after=MINUTE)
    alert = explained_alert(case(batch(failures=(refused,))))
    assert alert_text(alert).startswith("tried at 2026-01-05T12:00:00.000Z, next attempt at 2026-01-05T12:01:00.000Z; ")
    for possibly_accepted in (
        case(batch(failures=(failed_attempt(AlertOutcome.UNKNOWN, after=MINUTE),))),
        case(batch(failures=(refused,)), devices=[PHONE, OTHER_PHONE]),
    ):
        assert alert_text(explained_alert(possibly_accepted)).startswith(
            "sent at 2026-01-05T12:00:00.000Z, next attempt at "
        )


def test_held_alert_waits_for_provider_and_is_not_sent() -> None:
    held = failed_attempt(AlertOutcome.HELD, to=replace(FIRST_TRY, failed_attempts=0), after=MINUTE)
    waits = entry(PUSH_SLICE, Fact.DEFERRED, n=1, at=LATER)
    alert = explained_alert(case(batch(failures=(held,)), entries=[waits]))
    assert (alert.state, alert.rule, alert.until, alert.at) == (
        AlertState.DEFERRED,
        ExplainRule.SLICE_DEFERRED,
        LATER,
        None,
    )
    assert [device.last_failure for device in alert.devices] == [AlertOutcome.HELD]
    late = explained_alert(case(batch(failures=(held,)), entries=[entry(PUSH_SLICE, Fact.PULLED)]))
    assert (late.state, late.rule) == (AlertState.NEVER, ExplainRule.TOO_LATE)
    assert explained_alert(case(batch(failures=(held,)), devices=[PHONE, OTHER_PHONE])).state is AlertState.RETRYING


def test_retry_in_quiet_hours_is_sent_if_they_end_in_time() -> None:
    busy = batch(failures=(failed_attempt(AlertOutcome.RETRY, after=MINUTE),))
    alert = explained_alert(case(busy, preferences=NAP))
    assert (alert.state, alert.until) == (AlertState.RETRYING, NOON + 15 * MINUTE)
    alert = explained_alert(case(busy, preferences=NIGHT))
    assert (alert.state, alert.until, [device.next_attempt_at for device in alert.devices]) == (
        AlertState.FAILED,
        None,
        [None],
    )
    assert f"no further attempt: {REASON_TEXTS[ExplainRule.QUIET_HOURS]}" in alert_text(alert)
    seen = explained_alert(seen_by(case(busy, preferences=NIGHT)))
    assert (seen.state, seen.rule) == (AlertState.FAILED, SuppressionReason.SEEN)


def test_reason_that_is_a_sentence_loses_its_full_stop() -> None:
    clock_ahead = replace(failed_attempt(AlertOutcome.RETRY, after=MINUTE), reason="This machine's clock is ahead.")
    assert "clock is ahead, 1 failed attempt, next attempt at " in alert_text(
        explained_alert(case(batch(failures=(clock_ahead,))))
    )
