"""Timeline.rows returns the rows that reach a member, for the given subjects, newest first."""

from asyncio import run
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets
from notifier.domain.audience.inbox_rows import INBOX_WINDOW, RANGE_MEMBERS, InboxRow, InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.flow.inbox.burst_walk import LOWEST_KEY
from notifier.ports.inbox import InboxPosition
from tests.contracts.memory_and_sqlite_stores import Store
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock_and_nonces import START

DAY = timedelta(days=1)
TICK = timedelta(milliseconds=1)
EXAMPLES = count(1)
SUBJECTS = [Subject(Kind.MENTION, UserId(owner)) for owner in ("a", "b", "ä", "z", "Z", "a-b")]
ME, OTHER_MEMBER = 5, 6
ALL = range(RANGE_MEMBERS)
ALL_BUT_ME = [offset for offset in ALL if offset != ME]
MANY = 300
"""Number of bursts; with two tiers each they have more rows than the Cassandra adapter reads at once."""


def inbox_rows(
    key: BurstKey, opened_at: datetime = START, members: Iterable[int] = (ME,), tier: Tier = Tier.P1
) -> InboxRows:
    return cut_inbox_rows(from_offsets(members), burst=key, opened_at=opened_at, tier=tier, shard=0)


def nova_keys(*seqs: int) -> list[BurstKey]:
    return [BurstKey(NOVA, seq) for seq in seqs]


def read_rows(
    store: Store,
    member: int = ME,
    subjects: Collection[Subject] = (NOVA, ORION),
    position: InboxPosition | None = None,
    limit: int = 10,
) -> list[InboxRow]:
    return list(run(store.timeline.rows(Member(member), subjects, position, limit)))


def keys(rows_: Iterable[InboxRow]) -> list[BurstKey]:
    return [row.burst for row in rows_]


def position_of(row: InboxRow | InboxRows) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)


def newest_first(batch: Iterable[InboxRows]) -> list[BurstKey]:
    return [position.burst for position in sorted(map(position_of, batch), reverse=True)]


def test_rows_of_all_subjects_and_windows_come_newest_first(store: Store) -> None:
    opened = [BurstKey((NOVA, ORION)[day % 2], 100 - day) for day in range(12)]
    for day, key in enumerate(opened):
        store.inbox.write([inbox_rows(key, START - day * DAY, ALL if day % 3 else [ME])])
    assert keys(read_rows(store, limit=99)) == opened
    assert keys(read_rows(store, OTHER_MEMBER, limit=99)) == [key for day, key in enumerate(opened) if day % 3]


@pytest.mark.parametrize("limit", [1, 4, 11, 12, 13])
def test_at_most_limit_rows_are_returned(store: Store, limit: int) -> None:
    opened = [BurstKey((NOVA, ORION)[day % 2], 100 - day) for day in range(12)]
    store.inbox.write([inbox_rows(key, START - day * DAY) for day, key in enumerate(opened)])
    assert keys(read_rows(store, limit=limit)) == opened[:limit]


def test_row_is_read_as_written(store: Store) -> None:
    bitmap, listed = BurstKey(NOVA, 1), BurstKey(ORION, 1)
    store.inbox.write([inbox_rows(bitmap, START - TICK, ALL, Tier.P2), inbox_rows(listed, members=[ME, OTHER_MEMBER])])
    assert read_rows(store) == [
        InboxRow(burst=listed, opened_at=START, tier=Tier.P1, members=b"\x05\x00\x06\x00"),
        InboxRow(burst=bitmap, opened_at=START - TICK, tier=Tier.P2, members=b"\xff" * (RANGE_MEMBERS // 8)),
    ]


def test_only_rows_of_given_subjects_are_returned(store: Store) -> None:
    """Subject names differ in case or accents, are prefixes of each other, or have two kinds."""
    subjects = [*SUBJECTS, Subject(Kind.SELF, UserId("a"))]
    store.inbox.write([inbox_rows(BurstKey(subject, 1)) for subject in subjects])
    for subject in subjects:
        assert keys(read_rows(store, subjects=[subject])) == [BurstKey(subject, 1)]
    assert sorted(keys(read_rows(store, subjects=subjects[::2]))) == sorted(
        BurstKey(subject, 1) for subject in subjects[::2]
    )
    assert read_rows(store, subjects=[NOVA]) == []


def test_read_of_no_subjects_returns_no_rows(store: Store) -> None:
    store.inbox.write([inbox_rows(BurstKey(NOVA, 1))])
    assert read_rows(store, subjects=[]) == []


def test_duplicate_subject_returns_its_rows_once(store: Store) -> None:
    store.inbox.write([inbox_rows(BurstKey(NOVA, 1), START - TICK), inbox_rows(BurstKey(ORION, 1))])
    assert keys(read_rows(store, subjects=[NOVA, ORION, NOVA])) == [BurstKey(ORION, 1), BurstKey(NOVA, 1)]


def test_position_bounds_rows_of_the_same_time(store: Store) -> None:
    """Each subject has two bursts that open at the same time, and one a moment before."""
    batch = [
        inbox_rows(BurstKey(subject, seq), START if seq > 1 else START - TICK)
        for subject in SUBJECTS
        for seq in (1, 2, 3)
    ]
    store.inbox.write(batch)
    page, opened = read_rows(store, subjects=SUBJECTS, limit=99), newest_first(batch)
    assert keys(page) == opened
    for n, row in enumerate(page):
        assert keys(read_rows(store, subjects=SUBJECTS, position=position_of(row), limit=99)) == opened[n + 1 :]
        assert keys(read_rows(store, subjects=SUBJECTS, position=position_of(row), limit=2)) == opened[n + 1 : n + 3]


def test_position_needs_no_row(store: Store) -> None:
    batch = [inbox_rows(BurstKey(subject, seq), START - seq * TICK) for subject in SUBJECTS for seq in (1, 3)]
    store.inbox.write(batch)
    opened = newest_first(batch)

    def keys_after(opened_at: datetime, key: BurstKey) -> list[BurstKey]:
        return keys(read_rows(store, subjects=SUBJECTS, position=InboxPosition(opened_at, key), limit=99))

    assert keys_after(START, LOWEST_KEY) == opened
    assert keys_after(START - TICK, LOWEST_KEY) == keys_after(START - 2 * TICK, BurstKey(NOVA, 7)) == opened[6:]
    assert keys_after(START - 3 * TICK, LOWEST_KEY) == keys_after(START - 40 * DAY, BurstKey(NOVA, 7)) == []
    middle = replace(batch[3].burst, seq=2)  # of the same subject, so one row fewer follows
    assert keys_after(batch[2].opened_at, middle) == opened[opened.index(batch[2].burst) :]


def test_position_at_end_of_window_bounds_rows(store: Store) -> None:
    border = START - (START - datetime.fromtimestamp(0, START.tzinfo)) % INBOX_WINDOW
    batch = [inbox_rows(key, border - n * TICK) for n, key in enumerate(nova_keys(4, 3, 2, 1), start=-1)]
    store.inbox.write(batch)
    assert keys(read_rows(store)) == nova_keys(4, 3, 2, 1)
    for n, rows_ in enumerate(batch, start=1):
        assert keys(read_rows(store, position=position_of(rows_))) == nova_keys(4, 3, 2, 1)[n:]


def test_empty_windows_are_skipped(store: Store) -> None:
    batch = [inbox_rows(key, START - days * DAY) for key, days in zip(nova_keys(3, 2, 1), (0, 30, 85), strict=True)]
    store.inbox.write(batch)
    assert keys(read_rows(store)) == nova_keys(3, 2, 1)
    assert keys(read_rows(store, position=InboxPosition(START - 10 * DAY, LOWEST_KEY))) == nova_keys(2, 1)
    assert keys(read_rows(store, position=InboxPosition(START - 60 * DAY, LOWEST_KEY), limit=1)) == nova_keys(1)


def test_windows_with_only_other_subjects_are_skipped(store: Store) -> None:
    store.inbox.write([inbox_rows(BurstKey(ORION, seq), START - (60 - seq) * DAY) for seq in range(1, 60)])
    store.inbox.write([inbox_rows(BurstKey(NOVA, 1), START - 70 * DAY)])
    assert keys(read_rows(store, subjects=[NOVA])) == nova_keys(1)


def test_rows_of_other_members_in_range_are_skipped(store: Store) -> None:
    other_rows = [inbox_rows(key, START - n * DAY, ALL_BUT_ME) for n, key in enumerate(nova_keys(*range(30, 1, -1)))]
    store.inbox.write([*other_rows, inbox_rows(BurstKey(NOVA, 1), START - 60 * DAY, ALL)])
    assert keys(read_rows(store)) == nova_keys(1)
    assert keys(read_rows(store, OTHER_MEMBER, limit=99)) == nova_keys(*range(30, 0, -1))


def test_rows_of_other_ranges_are_not_returned(store: Store) -> None:
    store.inbox.write([inbox_rows(BurstKey(NOVA, 1), members=[ME, RANGE_MEMBERS + OTHER_MEMBER, SHARD_MEMBERS - 1])])
    for member, reached in (
        (ME, True),
        (OTHER_MEMBER, False),
        (RANGE_MEMBERS + OTHER_MEMBER, True),
        (RANGE_MEMBERS + ME, False),
    ):
        assert bool(read_rows(store, member)) == reached
    assert read_rows(store, SHARD_MEMBERS - 1)
    assert not read_rows(store, 2 * SHARD_MEMBERS - 1)


def test_burst_in_two_tiers_has_two_adjacent_rows(store: Store) -> None:
    """Callers read the burst once."""
    key = BurstKey(ORION, 2)
    other_keys = [
        BurstKey(NOVA, 1),
        BurstKey(ORION, 1),
        BurstKey(ORION, 3),
        BurstKey(Subject(Kind.SELF, UserId("a")), 1),
    ]
    batch = [inbox_rows(key, tier=Tier.P2), *map(inbox_rows, other_keys), inbox_rows(key, tier=Tier.P0)]
    store.inbox.write(batch)
    page = read_rows(store, subjects={other_key.subject for other_key in (key, *other_keys)})
    assert keys(page) == newest_first(batch)
    assert keys(page).count(key) == 2
    assert {row.tier for row in page if row.burst == key} == {Tier.P0, Tier.P2}
    assert keys(read_rows(store, subjects=[ORION], position=InboxPosition(START, key))) == [BurstKey(ORION, 1)]


def rows_of_many_bursts(own_seqs: Collection[int], interval: timedelta) -> list[InboxRows]:
    """Return rows for the other member: two tiers of each burst, and one of the last.

    So a result ends between two tiers of one burst. The second tier of some bursts also reaches ME.
    """
    tiers = [(seq, tier) for seq in range(1, MANY + 1) for tier in (Tier.P1, Tier.P2)][:-1]
    return [
        inbox_rows(
            BurstKey(NOVA, seq),
            START - (MANY - seq) * interval,
            [ME, OTHER_MEMBER] if seq in own_seqs and tier is Tier.P2 else [OTHER_MEMBER],
            tier,
        )
        for seq, tier in tiers
    ]


@pytest.mark.parametrize("interval", [TICK, timedelta(0)], ids=["each at its moment", "all at one moment"])
def test_more_rows_of_subject_than_one_result_holds_are_read(store: Store, interval: timedelta) -> None:
    own_seqs = [MANY - 1, *range(MANY - 250, MANY - 260, -1), 2, 1]
    store.inbox.write(rows_of_many_bursts(own_seqs, interval))
    page = read_rows(store, limit=99)
    assert keys(page) == nova_keys(*own_seqs)
    assert read_rows(store, limit=5) == page[:5]
    for n in (0, 4, 10, 11, 12):
        assert read_rows(store, position=position_of(page[n]), limit=99) == page[n + 1 :]
    other_rows = read_rows(store, OTHER_MEMBER, limit=2 * MANY)
    assert keys(other_rows) == nova_keys(MANY, *(seq for seq in range(MANY - 1, 0, -1) for _ in range(2)))
    assert keys(read_rows(store, OTHER_MEMBER, limit=MANY)) == keys(other_rows)[:MANY]


def test_more_subjects_than_one_query_takes_are_read(store: Store) -> None:
    """One subject has more rows than one result holds, and every fourth of the others has one row."""
    subjects = [Subject(Kind.MENTION, UserId(f"m{n:04}")) for n in range(900)]
    sparse_rows = [inbox_rows(BurstKey(subject, 1), START - n * DAY / 50) for n, subject in enumerate(subjects[::4])]
    own_rows = [inbox_rows(BurstKey(NOVA, seq), START - (MANY - seq) * TICK) for seq in (1, 7, MANY - 1)]
    store.inbox.write([*sparse_rows, *rows_of_many_bursts((1, 7, MANY - 1), TICK)])
    opened, requested = newest_first([*sparse_rows, *own_rows]), [*subjects, NOVA]
    assert keys(read_rows(store, subjects=requested, limit=999)) == opened
    assert keys(read_rows(store, subjects=requested, limit=20)) == opened[:20]
    page = read_rows(store, subjects=requested[::-1], limit=200)
    assert keys(page) == opened[:200]
    assert keys(read_rows(store, subjects=requested, position=position_of(page[99]), limit=50)) == opened[100:150]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    openings=st.lists(
        st.tuples(
            st.sampled_from(SUBJECTS),
            st.integers(1, 12),
            st.sampled_from([0, 1, 2]),
            st.sampled_from([0, 4, 40]),
            st.sampled_from([[ME], [OTHER_MEMBER], [ME, OTHER_MEMBER], ALL]),
        ),
        max_size=30,
        unique_by=lambda opening: opening[:2],
    ),
    requested=st.sets(st.sampled_from(SUBJECTS)),
    limit=st.integers(1, 5),
)
def test_pages_of_any_size_return_each_row_once_in_order(
    store: Store,
    openings: list[tuple[Subject, int, int, int, Sequence[int]]],
    requested: set[Subject],
    limit: int,
) -> None:
    """Many bursts open in the same millisecond, so the key decides the order."""
    example = next(EXAMPLES)
    own_subjects = {subject: Subject(Kind.MENTION, UserId(f"{subject.owner}{example}")) for subject in SUBJECTS}
    batch = [
        inbox_rows(BurstKey(own_subjects[subject], seq), START - days * DAY - delay * TICK, members)
        for subject, seq, delay, days, members in openings
    ]
    store.inbox.write(batch)
    pages: list[InboxRow] = []
    for _ in range(len(batch) + 1):
        position = position_of(pages[-1]) if pages else None
        pages += read_rows(
            store, subjects=[own_subjects[subject] for subject in requested], position=position, limit=limit
        )
    expected = [
        rows_
        for rows_, (subject, *_, members) in zip(batch, openings, strict=True)
        if subject in requested and ME in members
    ]
    assert keys(pages) == newest_first(expected)
