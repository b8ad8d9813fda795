"""Bursts of the inbox timeline: newest first, none repeated or left out."""

from asyncio import run
from dataclasses import replace
from datetime import timedelta
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import LOWEST_KEY
from notifier.ports.inbox import InboxPosition
from tests.contracts.memory_and_sqlite_stores import Store
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock_and_nonces import START

DAY = timedelta(days=1)
EXAMPLES = count(1)
SUBJECTS = [Subject(Kind.MENTION, UserId(owner)) for owner in ("a", "b", "ä", "z", "Z", "a-b")]


def position_of(burst_: Burst) -> InboxPosition:
    return InboxPosition(burst_.opened_at, burst_.key)


def bursts_before(
    store: Store, subjects: list[Subject], position: InboxPosition | None = None, limit: int = 10
) -> list[Burst]:
    return list(run(store.timeline.older_than(subjects, position, limit)))


def test_bursts_are_found_by_key(store: Store) -> None:
    burst_ = burst()
    store.bursts.write([burst_], [])
    assert run(store.timeline.bursts([burst_.key, BurstKey(NOVA, 2)])) == {burst_.key: burst_}


def test_only_requested_bursts_are_returned(store: Store) -> None:
    """Other bursts of the same subjects, and with the same numbers, exist."""
    subjects = [Subject(Kind.MENTION, UserId(f"s{n:02}")) for n in range(9)]
    bursts = {(n, seq): burst(subject, seq) for n, subject in enumerate(subjects) for seq in (*range(1, 10), 2_000)}
    store.bursts.write([*bursts.values()], [])
    expected = [bursts[n, seq] for n in range(9) for seq in (n + 1, *range(1, n), 2_000 if n % 2 else 1)]
    assert run(store.timeline.bursts([burst_.key for burst_ in expected])) == {
        burst_.key: burst_ for burst_ in expected
    }
    assert run(store.timeline.bursts([])) == {}


def test_newest_bursts_of_few_among_many_subjects_are_found(store: Store) -> None:
    """One subject has a page of its own among thousands that have one burst each, or none."""
    quiet = [Subject(Kind.MENTION, UserId(f"m{n:04}")) for n in range(3_000)]
    single_bursts = [burst(subject, opened_at=START - n * DAY / 1_000) for n, subject in enumerate(quiet[::30])]
    busy_bursts = [burst(NOVA, seq, opened_at=START + seq * DAY / 1_000 - DAY / 30) for seq in range(1, 60)]
    store.bursts.write([*single_bursts, *busy_bursts], [])
    newest = sorted([*single_bursts, *busy_bursts], key=position_of, reverse=True)
    assert bursts_before(store, [*quiet, NOVA], limit=20) == newest[:20]
    assert bursts_before(store, [*quiet, NOVA], position_of(newest[50]), limit=40) == newest[51:91]
    assert bursts_before(store, [*quiet, NOVA], limit=200) == newest


def test_newest_bursts_of_all_subjects_come_first(store: Store) -> None:
    bursts = [burst((NOVA, ORION)[n % 2], n, opened_at=START + n * DAY) for n in range(1, 8)]
    store.bursts.write([*bursts, burst(SUBJECTS[0], 1, opened_at=START + 9 * DAY)], [])
    assert bursts_before(store, [NOVA, ORION, SUBJECTS[1]], limit=3) == bursts[:-4:-1]
    assert bursts_before(store, [NOVA, ORION]) == bursts[::-1]
    assert bursts_before(store, []) == []


def test_next_page_starts_after_last_item(store: Store) -> None:
    bursts = [burst(NOVA, n, opened_at=START + n * DAY) for n in range(1, 6)]
    store.bursts.write(bursts, [])
    assert bursts_before(store, [NOVA], position_of(bursts[2])) == [bursts[1], bursts[0]]


def test_bursts_restricted_to_other_authors_are_skipped(store: Store) -> None:
    ada, eve = UserId("ada"), UserId("eve")
    bursts = [
        replace(burst(NOVA, n, opened_at=START + n * DAY), restricted_to=(None, ada, eve, eve)[n % 4])
        for n in range(1, 13)
    ]
    store.bursts.write(bursts, [])
    for authors, admitted in ((), (None,)), ((ada,), (None, ada)), ((eve, ada), (None, ada, eve)):
        expected = [burst_ for burst_ in reversed(bursts) if burst_.restricted_to in admitted]
        assert list(run(store.timeline.older_than([NOVA], None, 99, authors))) == expected
        assert list(run(store.timeline.older_than([NOVA, ORION], None, 2, authors))) == expected[:2]
        assert list(run(store.timeline.older_than([NOVA], position_of(expected[1]), 2, authors))) == expected[2:4]
    assert bursts_before(store, [NOVA], limit=99) == bursts[::-1]


def test_all_bursts_since_a_time_are_returned(store: Store) -> None:
    bursts = [burst((NOVA, ORION)[n % 2], n, opened_at=START + n // 2 * DAY) for n in range(1, 9)]
    store.bursts.write(bursts, [])
    newest = sorted(bursts, key=position_of, reverse=True)

    def since(days: int, position: InboxPosition | None = None, limit: int = 10) -> list[Burst]:
        return list(run(store.timeline.older_than([NOVA, ORION], position, limit, None, START + days * DAY)))

    assert since(3) == newest[:3]
    assert since(3, limit=2) == newest[:2]
    assert since(3, position_of(newest[0])) == newest[1:3]
    assert since(3, position_of(newest[2])) == since(9) == []
    assert since(0) == newest


def test_bursts_between_two_times_exclude_the_later_one(store: Store) -> None:
    bursts = [burst(subject, n, opened_at=START + n * DAY) for n in range(1, 5) for subject in (NOVA, ORION)]
    store.bursts.write(bursts, [])
    until = InboxPosition(START + 4 * DAY, LOWEST_KEY)
    page = run(store.timeline.older_than([NOVA, ORION], until, 9, (), START + 2 * DAY))
    assert list(page) == sorted(bursts[2:6], key=position_of, reverse=True)
    assert list(run(store.timeline.older_than([NOVA, ORION], until, 3, (), START + 2 * DAY))) == list(page[:3])


def test_gaps_between_numbers_do_not_matter(store: Store) -> None:
    numbers = [1, 2, 1_022, 1_023, 1_024, 1_025, 40_000, 40_001, 80_000, *range(90_000, 120_000, 1_500)]
    bursts = [burst(NOVA, seq, opened_at=START + n * DAY) for n, seq in enumerate(numbers)]
    store.bursts.write(bursts, [])
    assert bursts_before(store, [NOVA], limit=99) == bursts[::-1]
    assert bursts_before(store, [NOVA], position_of(bursts[5]), 3) == bursts[4:1:-1]
    assert list(run(store.timeline.older_than([NOVA], None, 99, None, START + 4 * DAY))) == bursts[:3:-1]
    assert run(store.timeline.bursts([burst_.key for burst_ in bursts])) == {burst_.key: burst_ for burst_ in bursts}


def test_grown_burst_keeps_its_place_and_restamped_burst_moves(store: Store) -> None:
    store.bursts.write([burst(NOVA, 1, opened_at=START), burst(ORION, 1, opened_at=START + DAY)], [])
    moved = burst(NOVA, 1, version=2, opened_at=START + 2 * DAY)
    store.bursts.write([moved], [])
    assert [burst_.key.subject for burst_ in bursts_before(store, [NOVA, ORION])] == [NOVA, ORION]
    assert bursts_before(store, [NOVA], position_of(moved)) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    openings=st.lists(
        st.tuples(st.sampled_from(SUBJECTS), st.integers(1, 12), st.integers(0, 3)),
        max_size=30,
        unique_by=lambda opening: opening[:2],
    ),
    limit=st.integers(1, 5),
)
def test_pages_of_any_size_return_each_burst_once_in_order(
    store: Store, openings: list[tuple[Subject, int, int]], limit: int
) -> None:
    """Many bursts open in the same millisecond, so the key decides the order.

    Within a subject none opens before the burst whose number it follows, because no sequence head allows it.
    """
    example = next(EXAMPLES)
    delays = {
        subject: iter(sorted(delay for opened, _, delay in openings if opened == subject)) for subject in SUBJECTS
    }
    own_subjects = {subject: Subject(Kind.MENTION, UserId(f"{subject.owner}{example}")) for subject in SUBJECTS}
    bursts = [
        burst(own_subjects[subject], seq, opened_at=START + next(delays[subject]) * timedelta(milliseconds=1))
        for subject, seq, _ in sorted(openings)
    ]
    store.bursts.write(bursts, [])
    listed: list[Burst] = []
    for _ in range(len(bursts) + 1):
        listed += bursts_before(store, list(own_subjects.values()), position_of(listed[-1]) if listed else None, limit)
    assert listed == sorted(bursts, key=position_of, reverse=True)
