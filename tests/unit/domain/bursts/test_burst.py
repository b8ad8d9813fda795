"""Burst: what it keeps of the mentions that it contains."""

from dataclasses import replace

from notifier.domain.bursts.burst import MAX_MENTIONERS, Burst, expires_at
from notifier.domain.ids import BurstKey, UserId
from tests.support.domain_examples import ADA, BOB, NOON, OF_NOVA, burst, mention


def opened(*, protected: bool = False) -> Burst:
    return Burst.opened_by(
        mention(protected=protected), key=BurstKey(OF_NOVA, 1), version=3, opened_at=NOON, first_of_day=True
    )


def test_opening_mention_gives_the_burst_its_text_and_first_name() -> None:
    assert (opened().opener, opened().text, opened().count) == (ADA, "text 1", 1)


def test_protected_author_restricts_the_burst_to_own_followers() -> None:
    assert opened(protected=True).restricted_to == ADA
    assert opened().restricted_to is None


def test_growth_changes_count_names_and_version_only() -> None:
    before = opened()
    after = before.joined_by(mention(2, author=BOB), 4)
    assert (after.count, after.mentioners, after.version) == (2, (ADA, BOB), 4)
    assert replace(after, count=1, mentioners=(ADA,), version=3) == before


def test_repeated_mentioner_is_named_once_and_counted_twice() -> None:
    after = opened().joined_by(mention(2), 4)
    assert (after.count, after.mentioners, after.more_mentioners) == (2, (ADA,), False)


def test_burst_knows_that_it_has_more_mentioners_than_it_keeps() -> None:
    full = burst(mentioners=tuple(UserId(f"u{n}") for n in range(MAX_MENTIONERS)))
    known = full.joined_by(mention(author=UserId("u3")), 2)
    stranger = full.joined_by(mention(author=UserId("stranger")), 2)
    assert (known.more_mentioners, stranger.more_mentioners) == (False, True)
    assert stranger.mentioners == full.mentioners
    assert stranger.joined_by(mention(author=UserId("u3")), 3).more_mentioners


def test_burst_expires_after_90_days() -> None:
    assert (expires_at(NOON) - NOON).days == 90
