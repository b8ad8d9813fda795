"""Moderation: how far the mentions of an author carry, and whose mentions an account allows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.bursts.moderation import (
    MAX_REASON_LENGTH,
    AuthorVerdict,
    Mentioner,
    MentionsAllowed,
    Verdict,
    apply_rule,
    by_operator_verdict,
    validated_verdict,
)
from notifier.domain.errors import BadReach
from notifier.domain.ids import UserId
from tests.support.fakes.clock_and_nonces import START

DECISION = AuthorVerdict(user=UserId("bob"), verdict=Verdict.HOLD, reason="a flood", operator="grace", at=START)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("author_verdict", list(Verdict))
def test_operator_verdict_decides_within_the_cap(author_verdict: Verdict) -> None:
    assert by_operator_verdict(Mentioner(operator_verdict=author_verdict)) is author_verdict


@pytest.mark.parametrize(
    ("author_verdict", "reach"),
    [
        (Verdict.ALL, Verdict.ROW),
        (Verdict.ROW, Verdict.ROW),
        (Verdict.HOLD, Verdict.HOLD),
        (Verdict.DENY, Verdict.DENY),
    ],
)
def test_exceeded_cap_prevents_alerts_and_widens_no_verdict(author_verdict: Verdict, reach: Verdict) -> None:
    assert by_operator_verdict(Mentioner(operator_verdict=author_verdict, within_author_cap=False)) is reach


@pytest.mark.parametrize(
    ("author_verdict", "within", "reach"),
    [
        (Verdict.HOLD, True, Verdict.ALL),
        (Verdict.HOLD, False, Verdict.ROW),
        (Verdict.DENY, True, Verdict.DENY),
        (Verdict.ROW, True, Verdict.ROW),
        (Verdict.ALL, False, Verdict.ROW),
    ],
)
def test_released_mention_passes_the_hold_only(author_verdict: Verdict, *, within: bool, reach: Verdict) -> None:
    assert (
        apply_rule(
            by_operator_verdict, Mentioner(operator_verdict=author_verdict, within_author_cap=within), released=True
        )
        is reach
    )


def test_custom_rule_can_use_platform_flags() -> None:
    def careful(mentioner: Mentioner) -> Verdict:
        return Verdict.ALL if mentioner.verified else Verdict.HOLD

    assert apply_rule(careful, Mentioner(), released=False) is Verdict.HOLD
    assert apply_rule(careful, Mentioner(verified=True), released=False) is Verdict.ALL
    assert apply_rule(careful, Mentioner(), released=True) is Verdict.ALL


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("verified", [False, True])
def test_account_admits_mentions_by_its_setting(*, followed: bool, verified: bool) -> None:
    admitted = {setting: setting.admits(followed=followed, verified=verified) for setting in MentionsAllowed}
    assert admitted == {
        MentionsAllowed.ALL: True,
        MentionsAllowed.FOLLOWED: followed,
        MentionsAllowed.VERIFIED: verified,
        MentionsAllowed.NONE: False,
    }


@pytest.mark.parametrize("reason", ["", " \t", "x" * (MAX_REASON_LENGTH + 1)])
def test_decision_needs_a_valid_reason(reason: str) -> None:
    with pytest.raises(BadReach, match=r"\w+\.$"):
        validated_verdict(replace(DECISION, reason=reason), None)


def test_new_decision_is_later_than_current_one_despite_slow_clock() -> None:
    assert validated_verdict(DECISION, None) == DECISION
    assert validated_verdict(DECISION, replace(DECISION, at=START - SECOND)) == DECISION
    assert validated_verdict(DECISION, replace(DECISION, at=START + SECOND)).at > START + SECOND
