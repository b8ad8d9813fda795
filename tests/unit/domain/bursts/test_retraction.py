"""What a burst becomes once mentions of it are taken back, purely; against counting everything anew."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.bursts.burst import MAX_MENTIONERS, RETENTION, Burst
from notifier.domain.bursts.mention import EventId, Mention
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.bursts.retraction import (
    MentionChange,
    Retraction,
    RetractionCause,
    amended,
    apply_retractions,
    belongs_to,
    day_keys,
    index_keys,
    retraction_keys,
)
from notifier.domain.ids import BurstKey, Lane, UserId
from tests.support.examples import ADA, BOB, EVE, NOON, OF_NOVA

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
    first, *others = mentions
    burst = Burst.opened_by(first, key=BurstKey(OF_NOVA, 1), version=1, opened_at=NOON, first_of_day=True)
    for n, one in enumerate(others):
        burst = burst.joined_by(one, n + 2)
    return burst


def settled(burst: Burst, stored: list[Mention], words: Sequence[Retraction]) -> Burst:
    """As a stage does: all that stays is looked up, and what is changed is written back."""
    said = {word.key: word for word in words}
    changes = [
        MentionChange(before=one, after=after) for one in stored if (after := apply_retractions(one, said)) != one
    ]
    stored[:] = [apply_retractions(one, said) for one in stored]
    rest = {one.author: one for one in reversed(stored) if belongs_to(one, burst)}
    return amended(burst, changes, rest, version=burst.version + 1) if changes else burst


def said(cause: RetractionCause, tweet: str = "", *, author: UserId = ADA, **more: object) -> Retraction:
    at = NOON + timedelta(hours=1)
    word = Retraction(id=EventId("x", "y"), cause=cause, author=author, tweet=tweet, at=at, sequence=1)
    return replace(word, **more)  # type: ignore[arg-type]  # whatever a test names


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=40),
    st.lists(st.lists(st.integers(0, 39), max_size=8), max_size=5),
)
def test_whatever_is_deleted_in_whatever_order_the_burst_is_what_is_left(
    authors: list[UserId], deletions: list[list[int]]
) -> None:
    stored = [mention(n, author) for n, author in enumerate(authors)]
    burst = burst_of(stored)
    for some in deletions:
        words = [said(RetractionCause.DELETE, f"t{n}", author=authors[n]) for n in some if n < len(authors)]
        burst = settled(burst, stored, words)
        left = [one for one in stored if not one.retracted]
        assert burst.count == len(left)
        assert burst.is_retracted is (not left)
        if left:
            writers = {one.author for one in left}
            assert burst.mentioners
            assert set(burst.mentioners) <= writers
            assert burst.more_mentioners or writers == set(burst.mentioners)
            shown = next(one for one in left if one.tweet == burst.tweet)
            assert (shown.author, shown.text) == (burst.opener, burst.text)
            assert burst.silent or burst.tweet == "t0"
        else:
            assert burst.text == ""
        assert settled(burst, stored, words) is burst


def test_nobody_is_named_who_is_protected_and_what_is_left_of_one_alone_is_his_followers() -> None:
    stored = [mention(0), mention(1, BOB), mention(2, EVE)]
    burst = settled(burst_of(stored), stored, [said(RetractionCause.PROTECT, author=BOB)])
    assert (burst.count, burst.mentioners, burst.restricted_to, burst.silent) == (2, (ADA, EVE), None, False)
    burst = settled(burst, stored, [said(RetractionCause.PROTECT), said(RetractionCause.PROTECT, author=EVE)])
    assert (burst.count, burst.mentioners, burst.restricted_to, burst.is_narrowed) == (1, (ADA,), ADA, True)
    assert settled(burst, stored, [said(RetractionCause.DELETE, "t1", author=BOB)]).count == 1
    assert settled(burst, stored, [said(RetractionCause.DELETE, "t0")]).is_retracted


def test_a_protected_author_s_own_burst_is_changed_by_a_deletion_alone() -> None:
    stored = [mention(0, protected=True)]
    burst = burst_of(stored)
    assert settled(burst, stored, [said(RetractionCause.PROTECT)]) is burst
    assert settled(burst, stored, [said(RetractionCause.ERASE)]).is_retracted


def test_what_happened_after_the_author_s_word_is_not_meant() -> None:
    later = replace(mention(0), happened_at=NOON + timedelta(hours=2))
    for cause in (RetractionCause.PROTECT, RetractionCause.ERASE):
        assert said(cause).apply_to(later) == later


def test_an_edit_is_the_text_of_the_tweet_that_is_shown_and_of_no_other() -> None:
    stored = [mention(0), mention(1, BOB)]
    burst = burst_of(stored)
    edit = said(RetractionCause.EDIT, "t1", author=BOB, mentioned=(OF_NOVA.owner,), text="new")
    burst = settled(burst, stored, [edit])
    assert (burst.text, burst.count, burst.version) == ("words 0", 2, 3)
    assert stored[1].text == "new"
    edit = said(RetractionCause.EDIT, "t0", mentioned=(OF_NOVA.owner,), text="newer")
    assert settled(burst, stored, [edit]).text == "newer"


@pytest.mark.parametrize("accepted_at", [MIDNIGHT + timedelta(seconds=3), MIDNIGHT - RETENTION - timedelta(hours=25)])
def test_at_a_day_s_end_a_mention_is_found_by_any_clock(accepted_at: datetime) -> None:
    """By a gateway's that is ahead; and what waited in the log is shown for as long as it opened late."""
    word = said(RetractionCause.ERASE)
    led = word.index_keys(MIDNIGHT - timedelta(seconds=1))
    assert not set(led).isdisjoint(index_keys(replace(mention(0), accepted_at=accepted_at)))


def test_a_mention_is_found_by_the_trails_that_its_retractions_follow() -> None:
    one = mention(0)
    now = NOON + timedelta(days=80)
    for word in (said(RetractionCause.DELETE, "t0"), said(RetractionCause.ERASE)):
        assert word.key in retraction_keys(one)
        assert not set(word.index_keys(now)).isdisjoint(index_keys(one))
    assert len(day_keys(ADA, NOON, now)) == 81
