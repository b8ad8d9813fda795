"""Retraction: the resulting burst equals a recount of the remaining mentions."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.bursts.burst import MAX_MENTIONERS, RETENTION, Burst
from notifier.domain.bursts.events_and_mentions import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.retraction import (
    MentionChange,
    Retraction,
    RetractionCause,
    amended,
    apply_retractions,
    belongs_to,
    day_keys,
    mention_lookup_keys,
    retraction_keys,
)
from notifier.domain.ids import BurstKey, Lane, UserId
from tests.support.domain_examples import ADA, BOB, EVE, NOON, OF_NOVA

MIDNIGHT = NOON + timedelta(hours=12)
NAMES = [UserId(f"a{n}") for n in range(MAX_MENTIONERS + 4)]


def mention(n: int, author: UserId = ADA, *, protected: bool = False) -> Mention:
    return Mention(
        event=EventId("tweets", f"e{n}"),
        subject=OF_NOVA,
        tweet=f"t{n}",
        author=author,
        text=f"words {n}",
        protected=protected,
        verdict=Verdict.ALL,
        lane=Lane.CELEBRITY,
        followers=10,
        happened_at=NOON + timedelta(seconds=n),
        accepted_at=NOON + timedelta(seconds=n),
    )


def burst_of(mentions: Sequence[Mention]) -> Burst:
    first, *joining = mentions
    burst = Burst.opened_by(first, key=BurstKey(OF_NOVA, 1), version=1, opened_at=NOON, first_of_day=True)
    for n, joining_mention in enumerate(joining):
        burst = burst.joined_by(joining_mention, n + 2)
    return burst


def settled(burst: Burst, stored: list[Mention], retractions: Sequence[Retraction]) -> Burst:
    """Change the mentions as the stage does: look up the remaining ones, and store the changed ones."""
    by_key = {applied.key: applied for applied in retractions}
    changes = [
        MentionChange(before=stored_mention, after=after)
        for stored_mention in stored
        if (after := apply_retractions(stored_mention, by_key)) != stored_mention
    ]
    stored[:] = [apply_retractions(stored_mention, by_key) for stored_mention in stored]
    by_author = {
        stored_mention.author: stored_mention
        for stored_mention in reversed(stored)
        if belongs_to(stored_mention, burst)
    }
    return amended(burst, changes, by_author, version=burst.version + 1) if changes else burst


def retraction(cause: RetractionCause, tweet: str = "", *, author: UserId = ADA, **more: object) -> Retraction:
    at = NOON + timedelta(hours=1)
    result = Retraction(id=EventId("x", "y"), cause=cause, author=author, tweet=tweet, at=at, sequence=1)
    return replace(result, **more)  # type: ignore[arg-type]  # fields chosen by the test


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=40),
    st.lists(st.lists(st.integers(0, 39), max_size=8), max_size=5),
)
def test_burst_equals_remaining_mentions_after_any_deletions(authors: list[UserId], deletions: list[list[int]]) -> None:
    stored = [mention(n, author) for n, author in enumerate(authors)]
    burst = burst_of(stored)
    for numbers in deletions:
        retractions = [
            retraction(RetractionCause.DELETE, f"t{n}", author=authors[n]) for n in numbers if n < len(authors)
        ]
        burst = settled(burst, stored, retractions)
        remaining = [remaining_mention for remaining_mention in stored if not remaining_mention.retracted]
        assert burst.count == len(remaining)
        assert burst.is_retracted is (not remaining)
        if remaining:
            writers = {remaining_mention.author for remaining_mention in remaining}
            assert burst.mentioners
            assert set(burst.mentioners) <= writers
            assert burst.more_mentioners or writers == set(burst.mentioners)
            shown = next(remaining_mention for remaining_mention in remaining if remaining_mention.tweet == burst.tweet)
            assert (shown.author, shown.text) == (burst.opener, burst.text)
            assert burst.silent or burst.tweet == "t0"
        else:
            assert burst.text == ""
        assert settled(burst, stored, retractions) is burst


def test_protected_mentioners_are_removed_until_one_restricts_the_burst() -> None:
    stored = [mention(0), mention(1, BOB), mention(2, EVE)]
    burst = settled(burst_of(stored), stored, [retraction(RetractionCause.PROTECT, author=BOB)])
    assert (burst.count, burst.mentioners, burst.restricted_to, burst.silent) == (2, (ADA, EVE), None, False)
    burst = settled(
        burst, stored, [retraction(RetractionCause.PROTECT), retraction(RetractionCause.PROTECT, author=EVE)]
    )
    assert (burst.count, burst.mentioners, burst.restricted_to, burst.became_restricted) == (1, (ADA,), ADA, True)
    assert settled(burst, stored, [retraction(RetractionCause.DELETE, "t1", author=BOB)]).count == 1
    assert settled(burst, stored, [retraction(RetractionCause.DELETE, "t0")]).is_retracted


def test_protected_burst_is_changed_by_erasure_but_not_by_protection() -> None:
    stored = [mention(0, protected=True)]
    burst = burst_of(stored)
    assert settled(burst, stored, [retraction(RetractionCause.PROTECT)]) is burst
    assert settled(burst, stored, [retraction(RetractionCause.ERASE)]).is_retracted


def test_retraction_does_not_apply_to_later_mentions() -> None:
    later = replace(mention(0), happened_at=NOON + timedelta(hours=2))
    for cause in (RetractionCause.PROTECT, RetractionCause.ERASE):
        assert retraction(cause).apply_to(later) == later


def test_edit_changes_burst_text_only_for_the_shown_tweet() -> None:
    stored = [mention(0), mention(1, BOB)]
    burst = burst_of(stored)
    edit = retraction(RetractionCause.EDIT, "t1", author=BOB, mentioned=(OF_NOVA.owner,), text="new")
    burst = settled(burst, stored, [edit])
    assert (burst.text, burst.count, burst.version) == ("words 0", 2, 3)
    assert stored[1].text == "new"
    edit = retraction(RetractionCause.EDIT, "t0", mentioned=(OF_NOVA.owner,), text="newer")
    assert settled(burst, stored, [edit]).text == "newer"


@pytest.mark.parametrize("accepted_at", [MIDNIGHT + timedelta(seconds=3), MIDNIGHT - RETENTION - timedelta(hours=25)])
def test_mention_at_day_end_is_found_despite_clock_differences(accepted_at: datetime) -> None:
    """The gateway's clock may be ahead; a mention that waited in the log stays visible longer."""
    erasure = retraction(RetractionCause.ERASE)
    lookup_keys = erasure.mention_lookup_keys(MIDNIGHT - timedelta(seconds=1))
    assert not set(lookup_keys).isdisjoint(mention_lookup_keys(replace(mention(0), accepted_at=accepted_at)))


def test_mention_is_found_by_its_retraction_keys() -> None:
    tweet_mention = mention(0)
    now = NOON + timedelta(days=80)
    for applied in (retraction(RetractionCause.DELETE, "t0"), retraction(RetractionCause.ERASE)):
        assert applied.key in retraction_keys(tweet_mention)
        assert not set(applied.mention_lookup_keys(now)).isdisjoint(mention_lookup_keys(tweet_mention))
    assert len(day_keys(ADA, NOON, now)) == 81
