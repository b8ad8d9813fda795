"""History of the Cassandra benchmarks: realistic inboxes, cut as the product cuts them."""

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.cassandra.generated_history_and_bursts import (
    GROUPS,
    TIERS,
    InboxHistory,
    OpenedBurst,
    cut_into,
    reaches,
)
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_flags
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, cut_inbox_rows, window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId

NOW = datetime(2026, 1, 14, 12, tzinfo=UTC)
PEOPLE = 8_192
READERS = (0, 77, 8_191)
BURST = BurstKey(Subject(Kind.MENTION, UserId("nova")), 1)


@pytest.fixture(scope="module")
def history() -> InboxHistory:
    return InboxHistory.made(PEOPLE, most=8, readers=READERS)


@pytest.fixture(scope="module")
def windows(history: InboxHistory) -> list[list[OpenedBurst]]:
    return list(history.windows(NOW, 3))


def test_member_follows_five_subjects_of_each_density(history: InboxHistory) -> None:
    for member in (Member(5), Member(77)):
        assert len(set(history.subjects(member))) == 30
    assert Counter(GROUPS) == dict.fromkeys((1_000, 200, 100, 50, 20, 4), 5)
    for group, subjects in enumerate(GROUPS):
        share = np.mean(history.follows[group] == 0) * subjects
        assert 0.1 < share < 3


def test_each_inbox_window_has_bursts_of_all_subjects(windows: list[list[OpenedBurst]]) -> None:
    subjects = 20 * 8 + 5 * 8 + 5 * 4
    for back, opened in enumerate(reversed(windows)):
        assert {window_of(burst.opened_at) for burst in opened} == {window_of(NOW) - back}
        assert len({burst.burst.subject for burst in opened}) == subjects
        assert len(opened) == subjects * 4 // 3
    keys = [burst.burst for opened in windows for burst in opened]
    assert len(keys) == len(set(keys))


def test_reader_gets_nearly_all_bursts_of_followed_subjects_in_one_tier(
    history: InboxHistory, windows: list[list[OpenedBurst]]
) -> None:
    for reader in READERS:
        subjects = set(history.subjects(Member(reader)))
        opened = [burst for window in windows for burst in window if burst.burst.subject in subjects]
        tiers = [tier for burst in opened for tier, members in burst.tiers.items() if reader in members]
        assert len(opened) >= 3 * 30
        assert 0.9 * len(opened) < len(tiers) <= len(opened)
        assert len(set(tiers)) == 1


def test_bursts_of_a_subject_reach_nearly_the_same_members(windows: list[list[OpenedBurst]]) -> None:
    by_subject: dict[Subject, list[OpenedBurst]] = {}
    for opened in windows:
        for burst in opened:
            by_subject.setdefault(burst.burst.subject, []).append(burst)
    large = [bursts for bursts in by_subject.values() if bursts[0].deliveries > 300]
    assert large
    for first, second, *_ in large:
        both = sum(len(np.intersect1d(first.tiers[tier], second.tiers[tier])) for tier in TIERS)
        assert 0.9 * first.deliveries < both < first.deliveries


@pytest.mark.parametrize("share", [0.0005, 0.02, 0.03125, 0.3])
def test_history_is_cut_as_the_product_cuts(share: float) -> None:
    flags = np.random.default_rng(1).random(SHARD_MEMBERS) < share
    rows = cut_inbox_rows(from_flags(flags), burst=BURST, opened_at=NOW, tier=Tier.P1, shard=0)
    assert cut_into(np.flatnonzero(flags), RANGE_MEMBERS) == (rows.ranges, rows.members)


@pytest.mark.parametrize("width", [1_024, 4_096, 8_192, 16_384])
def test_rows_of_each_width_reach_the_same_members(width: int) -> None:
    members = np.flatnonzero(np.random.default_rng(1).random(32_768) < np.linspace(0, 0.12, 32_768))
    opened = OpenedBurst(burst=BURST, opened_at=NOW, tiers={Tier.P0: members[:0], Tier.P2: members})
    [rows] = opened.rows(width, first=1_000)
    assert rows.delivery_count == opened.deliveries == len(members)
    assert {len(named) == width // 8 for named in rows.members} == {True, False}
    reached = [
        (number - 1_000) * width + place
        for number, named in zip(rows.ranges, rows.members, strict=True)
        for place in range(width)
        if reaches(named, place, width)
    ]
    assert reached == members.tolist()
