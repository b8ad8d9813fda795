"""How far one mentioner's mentions carry, and whose an account wants."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.bursts.moderation import (
    MAX_REASON_LENGTH,
    Mentioner,
    MentionsAllowed,
    ReachLimit,
    Verdict,
    apply_rule,
    by_operator_verdict,
    validated_limit,
)
from notifier.domain.errors import BadReach
from notifier.domain.ids import UserId
from tests.support.fakes.clock import START

WORD = ReachLimit(user=UserId("bob"), verdict=Verdict.HOLD, reason="a flood", operator="grace", at=START)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("standing", list(Verdict))
def test_within_the_cap_the_standing_decides(standing: Verdict) -> None:
    assert by_operator_verdict(Mentioner(operator_verdict=standing)) is standing


@pytest.mark.parametrize(
    ("standing", "reach"),
    [
        (Verdict.ALL, Verdict.ROW),
        (Verdict.ROW, Verdict.ROW),
        (Verdict.HOLD, Verdict.HOLD),
        (Verdict.DENY, Verdict.DENY),
    ],
)
def test_over_the_cap_no_phone_is_woken_and_nothing_gets_wider(standing: Verdict, reach: Verdict) -> None:
    assert by_operator_verdict(Mentioner(operator_verdict=standing, within_cap=False)) is reach


@pytest.mark.parametrize(
    ("standing", "within", "reach"),
    [
        (Verdict.HOLD, True, Verdict.ALL),
        (Verdict.HOLD, False, Verdict.ROW),
        (Verdict.DENY, True, Verdict.DENY),
        (Verdict.ROW, True, Verdict.ROW),
        (Verdict.ALL, False, Verdict.ROW),
    ],
)
def test_what_was_let_go_passes_the_hold_and_nothing_else(standing: Verdict, *, within: bool, reach: Verdict) -> None:
    assert (
        apply_rule(by_operator_verdict, Mentioner(operator_verdict=standing, within_cap=within), released=True) is reach
    )


def test_another_rule_may_go_by_what_the_platform_says() -> None:
    def careful(mentioner: Mentioner) -> Verdict:
        return Verdict.ALL if mentioner.verified else Verdict.HOLD

    assert apply_rule(careful, Mentioner(), released=False) is Verdict.HOLD
    assert apply_rule(careful, Mentioner(verified=True), released=False) is Verdict.ALL
    assert apply_rule(careful, Mentioner(), released=True) is Verdict.ALL


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("verified", [False, True])
def test_an_account_lets_through_whom_it_says(*, followed: bool, verified: bool) -> None:
    admitted = {each: each.admits(followed=followed, verified=verified) for each in MentionsAllowed}
    assert admitted == {
        MentionsAllowed.ALL: True,
        MentionsAllowed.FOLLOWED: followed,
        MentionsAllowed.VERIFIED: verified,
        MentionsAllowed.NONE: False,
    }


@pytest.mark.parametrize("reason", ["", " \t", "x" * (MAX_REASON_LENGTH + 1)])
def test_a_word_has_a_reason(reason: str) -> None:
    with pytest.raises(BadReach, match=r"\w+\.$"):
        validated_limit(replace(WORD, reason=reason), None)


def test_a_word_comes_after_the_one_that_stands_also_by_a_clock_that_is_behind() -> None:
    assert validated_limit(WORD, None) == WORD
    assert validated_limit(WORD, replace(WORD, at=START - SECOND)) == WORD
    assert validated_limit(WORD, replace(WORD, at=START + SECOND)).at > START + SECOND
