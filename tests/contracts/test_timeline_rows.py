"""The contract of Timeline.rows: the rows that reach a member, of the asked subjects alone, newest first."""

from asyncio import run
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets
from notifier.domain.audience.inbox_rows import INBOX_WINDOW, RANGE_MEMBERS, InboxRow, InboxRows, cut
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.flow.inbox.burst_walk import BEFORE_ALL
from notifier.ports.inbox import InboxPosition
from tests.contracts.flow_stores import Store
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock import START

DAY = timedelta(days=1)
TICK = timedelta(milliseconds=1)
EXAMPLES = count(1)
SUBJECTS = [Subject(Kind.MENTION, UserId(owner)) for owner in ("a", "b", "ä", "z", "Z", "a-b")]
ME, OTHER = 5, 6
ALL = range(RANGE_MEMBERS)
OTHERS = [place for place in ALL if place != ME]
MANY = 300
"""Bursts; in two tiers each they have more rows than the Cassandra adapter reads at once."""


def written(
    key: BurstKey, opened_at: datetime = START, members: Iterable[int] = (ME,), tier: Tier = Tier.P1
) -> InboxRows:
    return cut(from_offsets(members), burst=key, opened_at=opened_at, tier=tier, shard=0)


def numbered(*seqs: int) -> list[BurstKey]:
    return [BurstKey(NOVA, seq) for seq in seqs]


def rows(
    store: Store,
    member: int = ME,
    subjects: Collection[Subject] = (NOVA, ORION),
    place: InboxPosition | None = None,
    limit: int = 10,
) -> list[InboxRow]:
    return list(run(store.timeline.rows(Member(member), subjects, place, limit)))


def keys(found: Iterable[InboxRow]) -> list[BurstKey]:
    return [row.burst for row in found]


def place_of(row: InboxRow | InboxRows) -> InboxPosition:
    return InboxPosition(row.opened_at, row.burst)


def newest(made: Iterable[InboxRows]) -> list[BurstKey]:
    return [place.burst for place in sorted(map(place_of, made), reverse=True)]


def test_rows_of_all_subjects_and_windows_come_newest_first(store: Store) -> None:
    opened = [BurstKey((NOVA, ORION)[day % 2], 100 - day) for day in range(12)]
    for day, key in enumerate(opened):
        store.inbox.write([written(key, START - day * DAY, ALL if day % 3 else [ME])])
    assert keys(rows(store, limit=99)) == opened
    assert keys(rows(store, OTHER, limit=99)) == [key for day, key in enumerate(opened) if day % 3]


@pytest.mark.parametrize("limit", [1, 4, 11, 12, 13])
def test_no_more_rows_than_the_limit_are_returned(store: Store, limit: int) -> None:
    opened = [BurstKey((NOVA, ORION)[day % 2], 100 - day) for day in range(12)]
    store.inbox.write([written(key, START - day * DAY) for day, key in enumerate(opened)])
    assert keys(rows(store, limit=limit)) == opened[:limit]


def test_row_is_read_as_it_was_written(store: Store) -> None:
    bitmap, listed = BurstKey(NOVA, 1), BurstKey(ORION, 1)
    store.inbox.write([written(bitmap, START - TICK, ALL, Tier.P2), written(listed, members=[ME, OTHER])])
    assert rows(store) == [
        InboxRow(burst=listed, opened_at=START, tier=Tier.P1, members=b"\x05\x00\x06\x00"),
        InboxRow(burst=bitmap, opened_at=START - TICK, tier=Tier.P2, members=b"\xff" * (RANGE_MEMBERS // 8)),
    ]


def test_rows_of_the_asked_subjects_alone_are_returned(store: Store) -> None:
    """Names differ in case and accents, begin with each other, or are of two kinds."""
    subjects = [*SUBJECTS, Subject(Kind.SELF, UserId("a"))]
    store.inbox.write([written(BurstKey(subject, 1)) for subject in subjects])
    for subject in subjects:
        assert keys(rows(store, subjects=[subject])) == [BurstKey(subject, 1)]
    assert sorted(keys(rows(store, subjects=subjects[::2]))) == sorted(BurstKey(each, 1) for each in subjects[::2])
    assert rows(store, subjects=[NOVA]) == []


def test_no_subjects_have_no_rows(store: Store) -> None:
    store.inbox.write([written(BurstKey(NOVA, 1))])
    assert rows(store, subjects=[]) == []


def test_subject_that_is_asked_for_twice_gives_its_rows_once(store: Store) -> None:
    store.inbox.write([written(BurstKey(NOVA, 1), START - TICK), written(BurstKey(ORION, 1))])
    assert keys(rows(store, subjects=[NOVA, ORION, NOVA])) == [BurstKey(ORION, 1), BurstKey(NOVA, 1)]


def test_place_bounds_the_rows_among_those_of_one_moment(store: Store) -> None:
    """Of each subject two bursts open at the same moment, and another one a moment before."""
    made = [written(BurstKey(of, seq), START if seq > 1 else START - TICK) for of in SUBJECTS for seq in (1, 2, 3)]
    store.inbox.write(made)
    found, opened = rows(store, subjects=SUBJECTS, limit=99), newest(made)
    assert keys(found) == opened
    for n, row in enumerate(found):
        assert keys(rows(store, subjects=SUBJECTS, place=place_of(row), limit=99)) == opened[n + 1 :]
        assert keys(rows(store, subjects=SUBJECTS, place=place_of(row), limit=2)) == opened[n + 1 : n + 3]


def test_place_needs_no_row(store: Store) -> None:
    made = [written(BurstKey(of, seq), START - seq * TICK) for of in SUBJECTS for seq in (1, 3)]
    store.inbox.write(made)
    opened = newest(made)

    def behind(moment: datetime, key: BurstKey) -> list[BurstKey]:
        return keys(rows(store, subjects=SUBJECTS, place=InboxPosition(moment, key), limit=99))

    assert behind(START, BEFORE_ALL) == opened
    assert behind(START - TICK, BEFORE_ALL) == behind(START - 2 * TICK, BurstKey(NOVA, 7)) == opened[6:]
    assert behind(START - 3 * TICK, BEFORE_ALL) == behind(START - 40 * DAY, BurstKey(NOVA, 7)) == []
    middle = replace(made[3].burst, seq=2)  # of the same subject: behind it there is one row fewer
    assert behind(made[2].opened_at, middle) == opened[opened.index(made[2].burst) :]


def test_place_bounds_the_rows_where_a_window_ends(store: Store) -> None:
    border = START - (START - datetime.fromtimestamp(0, START.tzinfo)) % INBOX_WINDOW
    made = [written(key, border - n * TICK) for n, key in enumerate(numbered(4, 3, 2, 1), start=-1)]
    store.inbox.write(made)
    assert keys(rows(store)) == numbered(4, 3, 2, 1)
    for n, one in enumerate(made, start=1):
        assert keys(rows(store, place=place_of(one))) == numbered(4, 3, 2, 1)[n:]


def test_windows_without_rows_are_passed_over(store: Store) -> None:
    made = [written(key, START - days * DAY) for key, days in zip(numbered(3, 2, 1), (0, 30, 85), strict=True)]
    store.inbox.write(made)
    assert keys(rows(store)) == numbered(3, 2, 1)
    assert keys(rows(store, place=InboxPosition(START - 10 * DAY, BEFORE_ALL))) == numbered(2, 1)
    assert keys(rows(store, place=InboxPosition(START - 60 * DAY, BEFORE_ALL), limit=1)) == numbered(1)


def test_windows_with_rows_of_other_subjects_alone_are_passed_over(store: Store) -> None:
    store.inbox.write([written(BurstKey(ORION, seq), START - (60 - seq) * DAY) for seq in range(1, 60)])
    store.inbox.write([written(BurstKey(NOVA, 1), START - 70 * DAY)])
    assert keys(rows(store, subjects=[NOVA])) == numbered(1)


def test_rows_of_others_in_the_range_are_passed_over(store: Store) -> None:
    theirs = [written(key, START - n * DAY, OTHERS) for n, key in enumerate(numbered(*range(30, 1, -1)))]
    store.inbox.write([*theirs, written(BurstKey(NOVA, 1), START - 60 * DAY, ALL)])
    assert keys(rows(store)) == numbered(1)
    assert keys(rows(store, OTHER, limit=99)) == numbered(*range(30, 0, -1))


def test_rows_of_other_ranges_are_not_returned(store: Store) -> None:
    store.inbox.write([written(BurstKey(NOVA, 1), members=[ME, RANGE_MEMBERS + OTHER, SHARD_MEMBERS - 1])])
    for member, reached in ((ME, True), (OTHER, False), (RANGE_MEMBERS + OTHER, True), (RANGE_MEMBERS + ME, False)):
        assert bool(rows(store, member)) == reached
    assert rows(store, SHARD_MEMBERS - 1)
    assert not rows(store, 2 * SHARD_MEMBERS - 1)


def test_burst_in_two_tiers_has_two_rows_next_to_each_other(store: Store) -> None:
    """Callers read the burst once."""
    both = BurstKey(ORION, 2)
    others = [BurstKey(NOVA, 1), BurstKey(ORION, 1), BurstKey(ORION, 3), BurstKey(Subject(Kind.SELF, UserId("a")), 1)]
    made = [written(both, tier=Tier.P2), *map(written, others), written(both, tier=Tier.P0)]
    store.inbox.write(made)
    found = rows(store, subjects={key.subject for key in (both, *others)})
    assert keys(found) == newest(made)
    assert keys(found).count(both) == 2
    assert {row.tier for row in found if row.burst == both} == {Tier.P0, Tier.P2}
    assert keys(rows(store, subjects=[ORION], place=InboxPosition(START, both))) == [BurstKey(ORION, 1)]


def many(mine: Collection[int], apart: timedelta) -> list[InboxRows]:
    """Rows of others in two tiers of each burst, and of one tier of the last: an answer ends between two tiers of one.
    Of some bursts the second tier reaches me."""
    tiers = [(seq, tier) for seq in range(1, MANY + 1) for tier in (Tier.P1, Tier.P2)][:-1]
    return [
        written(
            BurstKey(NOVA, seq),
            START - (MANY - seq) * apart,
            [ME, OTHER] if seq in mine and tier is Tier.P2 else [OTHER],
            tier,
        )
        for seq, tier in tiers
    ]


@pytest.mark.parametrize("apart", [TICK, timedelta(0)], ids=["each at its moment", "all at one moment"])
def test_more_rows_of_a_subject_than_one_answer_takes_are_read(store: Store, apart: timedelta) -> None:
    mine = [MANY - 1, *range(MANY - 250, MANY - 260, -1), 2, 1]
    store.inbox.write(many(mine, apart))
    found = rows(store, limit=99)
    assert keys(found) == numbered(*mine)
    assert rows(store, limit=5) == found[:5]
    for n in (0, 4, 10, 11, 12):
        assert rows(store, place=place_of(found[n]), limit=99) == found[n + 1 :]
    theirs = rows(store, OTHER, limit=2 * MANY)
    assert keys(theirs) == numbered(MANY, *(seq for seq in range(MANY - 1, 0, -1) for _ in range(2)))
    assert keys(rows(store, OTHER, limit=MANY)) == keys(theirs)[:MANY]


def test_more_subjects_than_one_question_takes_are_asked_for(store: Store) -> None:
    """One of them has more rows than an answer takes, and every fourth of the others has one."""
    subjects = [Subject(Kind.MENTION, UserId(f"m{n:04}")) for n in range(900)]
    few = [written(BurstKey(subject, 1), START - n * DAY / 50) for n, subject in enumerate(subjects[::4])]
    mine = [written(BurstKey(NOVA, seq), START - (MANY - seq) * TICK) for seq in (1, 7, MANY - 1)]
    store.inbox.write([*few, *many((1, 7, MANY - 1), TICK)])
    opened, asked = newest([*few, *mine]), [*subjects, NOVA]
    assert keys(rows(store, subjects=asked, limit=999)) == opened
    assert keys(rows(store, subjects=asked, limit=20)) == opened[:20]
    found = rows(store, subjects=asked[::-1], limit=200)
    assert keys(found) == opened[:200]
    assert keys(rows(store, subjects=asked, place=place_of(found[99]), limit=50)) == opened[100:150]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    opened=st.lists(
        st.tuples(
            st.sampled_from(SUBJECTS),
            st.integers(1, 12),
            st.sampled_from([0, 1, 2]),
            st.sampled_from([0, 4, 40]),
            st.sampled_from([[ME], [OTHER], [ME, OTHER], ALL]),
        ),
        max_size=30,
        unique_by=lambda made: made[:2],
    ),
    asked=st.sets(st.sampled_from(SUBJECTS)),
    limit=st.integers(1, 5),
)
def test_pages_of_any_size_give_every_row_once_in_order(
    store: Store,
    opened: list[tuple[Subject, int, int, int, Sequence[int]]],
    asked: set[Subject],
    limit: int,
) -> None:
    """Many open in the same millisecond, so that the order by key decides."""
    example = next(EXAMPLES)
    own = {subject: Subject(Kind.MENTION, UserId(f"{subject.owner}{example}")) for subject in SUBJECTS}
    made = [
        written(BurstKey(own[subject], seq), START - days * DAY - late * TICK, members)
        for subject, seq, late, days, members in opened
    ]
    store.inbox.write(made)
    found: list[InboxRow] = []
    for _ in range(len(made) + 1):
        place = place_of(found[-1]) if found else None
        found += rows(store, subjects=[own[subject] for subject in asked], place=place, limit=limit)
    wanted = [
        one for one, (subject, *_, members) in zip(made, opened, strict=True) if subject in asked and ME in members
    ]
    assert keys(found) == newest(wanted)
