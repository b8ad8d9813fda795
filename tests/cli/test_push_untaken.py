"""What `explain` says of an alert that no phone took, as far as is known."""

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
    LATER,
    NIGHT,
    OTHER_PHONE,
    PHONE,
    RINGS,
    TRIED,
    case,
    missed,
    seen_by,
    told,
    window,
)
from tests.support.examples import MINUTE, NOON, entry

NAP = Overall(quiet=Hours(start=time(11), end=time(12, 10)))
"""Over at a quarter past, when people are looked for."""


def test_what_nobody_took_yet_is_not_told_to_be_sent() -> None:
    refused = missed(AlertOutcome.RETRY, after=MINUTE)
    found = told(case(window(missed=(refused,))))
    assert alert_words(found).startswith("tried at 2026-01-05T12:00:00.000Z, and again at 2026-01-05T12:01:00.000Z; ")
    for it_may_have_arrived in (
        case(window(missed=(missed(AlertOutcome.UNKNOWN, after=MINUTE),))),
        case(window(missed=(refused,)), devices=[PHONE, OTHER_PHONE]),
    ):
        assert alert_words(told(it_may_have_arrived)).startswith("sent at 2026-01-05T12:00:00.000Z, and again at ")


def test_who_was_held_back_waits_for_the_provider_and_was_sent_nothing() -> None:
    held = missed(AlertOutcome.HELD, to=replace(TRIED, tries=0), after=MINUTE)
    waits = entry(RINGS, Fact.WAITS, n=1, at=LATER)
    found = told(case(window(missed=(held,)), entries=[waits]))
    assert (found.told, found.rule, found.until, found.at) == (AlertState.WAITING, ExplainRule.PROVIDER, LATER, None)
    assert [one.fate for one in found.devices] == [AlertOutcome.HELD]
    late = told(case(window(missed=(held,)), entries=[entry(RINGS, Fact.PULLED)]))
    assert (late.told, late.rule) == (AlertState.NEVER, ExplainRule.LATE)
    assert told(case(window(missed=(held,)), devices=[PHONE, OTHER_PHONE])).told is AlertState.AGAIN


def test_who_sleeps_by_now_is_sent_it_again_once_awake_within_its_half_hour() -> None:
    busy = window(missed=(missed(AlertOutcome.RETRY, after=MINUTE),))
    found = told(case(busy, overall=NAP))
    assert (found.told, found.until) == (AlertState.AGAIN, NOON + 15 * MINUTE)
    found = told(case(busy, overall=NIGHT))
    assert (found.told, found.until, [one.until for one in found.devices]) == (AlertState.TRIED, None, [None])
    assert f"and not again: {WORDS[ExplainRule.QUIET_HOURS]}" in alert_words(found)
    seen = told(seen_by(case(busy, overall=NIGHT)))
    assert (seen.told, seen.rule) == (AlertState.TRIED, Unpushed.SEEN)


def test_a_reason_that_is_a_sentence_ends_within_ours() -> None:
    clock = replace(missed(AlertOutcome.RETRY, after=MINUTE), reason="This machine's clock is ahead.")
    assert "clock is ahead, 1 try, again at " in alert_words(told(case(window(missed=(clock,)))))
