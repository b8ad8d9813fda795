"""What `explain` says of an alert that no phone took, as far as is known."""

from dataclasses import replace

from notifier.cli.explain_push import Rule, Told
from notifier.cli.explain_words import alert_words
from notifier.domain.ledger import Fact
from notifier.domain.sending import Fate
from tests.cli.test_push_facts import LATER, OTHER_PHONE, PHONE, RINGS, TRIED, case, missed, told, window
from tests.unit.examples import MINUTE, entry


def test_what_nobody_took_yet_is_not_told_to_be_sent() -> None:
    refused = missed(Fate.RETRY, after=MINUTE)
    found = told(case(window(missed=(refused,))))
    assert alert_words(found).startswith("tried at 2026-01-05T12:00:00.000Z, and again at 2026-01-05T12:01:00.000Z; ")
    for it_may_have_arrived in (
        case(window(missed=(missed(Fate.UNKNOWN, after=MINUTE),))),
        case(window(missed=(refused,)), devices=[PHONE, OTHER_PHONE]),
    ):
        assert alert_words(told(it_may_have_arrived)).startswith("sent at 2026-01-05T12:00:00.000Z, and again at ")


def test_who_was_held_back_waits_for_the_provider_and_was_sent_nothing() -> None:
    held = missed(Fate.HELD, to=replace(TRIED, tries=0), after=MINUTE)
    waits = entry(RINGS, Fact.WAITS, n=1, at=LATER)
    found = told(case(window(missed=(held,)), entries=[waits]))
    assert (found.told, found.rule, found.until, found.at) == (Told.WAITING, Rule.PROVIDER, LATER, None)
    assert [one.fate for one in found.devices] == [Fate.HELD]
    late = told(case(window(missed=(held,)), entries=[entry(RINGS, Fact.PULLED)]))
    assert (late.told, late.rule) == (Told.NEVER, Rule.LATE)
    assert told(case(window(missed=(held,)), devices=[PHONE, OTHER_PHONE])).told is Told.AGAIN
