"""The contract of the timeline: one order, newest first, nothing twice and nothing left out."""

from asyncio import run
from dataclasses import replace
from datetime import timedelta
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import BEFORE_ALL
from notifier.ports.inbox import InboxPosition
from tests.contracts.flow_stores import Store
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock import START

DAY = timedelta(days=1)
EXAMPLES = count(1)
SUBJECTS = [Subject(Kind.MENTION, UserId(owner)) for owner in ("a", "b", "ä", "z", "Z", "a-b")]


def place_of(of: Burst) -> InboxPosition:
    return InboxPosition(of.opened_at, of.key)


def before(store: Store, subjects: list[Subject], place: InboxPosition | None = None, limit: int = 10) -> list[Burst]:
    return list(run(store.timeline.before(subjects, place, limit)))


def test_bursts_are_found_by_key(store: Store) -> None:
    made = burst()
    store.bursts.write([made], [])
    assert run(store.timeline.bursts([made.key, BurstKey(NOVA, 2)])) == {made.key: made}


def test_only_the_bursts_that_are_asked_for_are_found(store: Store) -> None:
    """Whatever else their subjects have with the same numbers."""
    subjects = [Subject(Kind.MENTION, UserId(f"s{n:02}")) for n in range(9)]
    made = {(n, seq): burst(subject, seq) for n, subject in enumerate(subjects) for seq in (*range(1, 10), 2_000)}
    store.bursts.write([*made.values()], [])
    wanted = [made[n, seq] for n in range(9) for seq in (n + 1, *range(1, n), 2_000 if n % 2 else 1)]
    assert run(store.timeline.bursts([of.key for of in wanted])) == {of.key: of for of in wanted}
    assert run(store.timeline.bursts([])) == {}


def test_few_of_many_subjects_have_the_newest(store: Store) -> None:
    """One subject has a page of its own among thousands that have a burst each, or none."""
    many = [Subject(Kind.MENTION, UserId(f"m{n:04}")) for n in range(3_000)]
    made = [burst(subject, opened_at=START - n * DAY / 1_000) for n, subject in enumerate(many[::30])]
    busy = [burst(NOVA, seq, opened_at=START + seq * DAY / 1_000 - DAY / 30) for seq in range(1, 60)]
    store.bursts.write([*made, *busy], [])
    newest = sorted([*made, *busy], key=place_of, reverse=True)
    assert before(store, [*many, NOVA], limit=20) == newest[:20]
    assert before(store, [*many, NOVA], place_of(newest[50]), limit=40) == newest[51:91]
    assert before(store, [*many, NOVA], limit=200) == newest


def test_the_newest_bursts_of_all_subjects_come_first(store: Store) -> None:
    made = [burst((NOVA, ORION)[n % 2], n, opened_at=START + n * DAY) for n in range(1, 8)]
    store.bursts.write([*made, burst(SUBJECTS[0], 1, opened_at=START + 9 * DAY)], [])
    assert before(store, [NOVA, ORION, SUBJECTS[1]], limit=3) == made[:-4:-1]
    assert before(store, [NOVA, ORION]) == made[::-1]
    assert before(store, []) == []


def test_the_next_page_starts_behind_the_last_item_of_the_one_before(store: Store) -> None:
    made = [burst(NOVA, n, opened_at=START + n * DAY) for n in range(1, 6)]
    store.bursts.write(made, [])
    assert before(store, [NOVA], place_of(made[2])) == [made[1], made[0]]


def test_what_is_restricted_to_others_is_as_if_it_were_not_there(store: Store) -> None:
    ada, eve = UserId("ada"), UserId("eve")
    made = [
        replace(burst(NOVA, n, opened_at=START + n * DAY), restricted_to=(None, ada, eve, eve)[n % 4])
        for n in range(1, 13)
    ]
    store.bursts.write(made, [])
    for authors, admitted in ((), (None,)), ((ada,), (None, ada)), ((eve, ada), (None, ada, eve)):
        wanted = [of for of in reversed(made) if of.restricted_to in admitted]
        assert list(run(store.timeline.before([NOVA], None, 99, authors))) == wanted
        assert list(run(store.timeline.before([NOVA, ORION], None, 2, authors))) == wanted[:2]
        assert list(run(store.timeline.before([NOVA], place_of(wanted[1]), 2, authors))) == wanted[2:4]
    assert before(store, [NOVA], limit=99) == made[::-1]


def test_of_those_since_a_moment_none_is_left_out(store: Store) -> None:
    made = [burst((NOVA, ORION)[n % 2], n, opened_at=START + n // 2 * DAY) for n in range(1, 9)]
    store.bursts.write(made, [])
    newest = sorted(made, key=place_of, reverse=True)

    def since(days: int, place: InboxPosition | None = None, limit: int = 10) -> list[Burst]:
        return list(run(store.timeline.before([NOVA, ORION], place, limit, None, START + days * DAY)))

    assert since(3) == newest[:3]
    assert since(3, limit=2) == newest[:2]
    assert since(3, place_of(newest[0])) == newest[1:3]
    assert since(3, place_of(newest[2])) == since(9) == []
    assert since(0) == newest


def test_the_bursts_between_two_moments_are_read_without_those_of_the_later_one(store: Store) -> None:
    made = [burst(subject, n, opened_at=START + n * DAY) for n in range(1, 5) for subject in (NOVA, ORION)]
    store.bursts.write(made, [])
    until = InboxPosition(START + 4 * DAY, BEFORE_ALL)
    found = run(store.timeline.before([NOVA, ORION], until, 9, (), START + 2 * DAY))
    assert list(found) == sorted(made[2:6], key=place_of, reverse=True)
    assert list(run(store.timeline.before([NOVA, ORION], until, 3, (), START + 2 * DAY))) == list(found[:3])


def test_no_number_is_too_far_from_the_next(store: Store) -> None:
    numbers = [1, 2, 1_022, 1_023, 1_024, 1_025, 40_000, 40_001, 80_000, *range(90_000, 120_000, 1_500)]
    made = [burst(NOVA, seq, opened_at=START + n * DAY) for n, seq in enumerate(numbers)]
    store.bursts.write(made, [])
    assert before(store, [NOVA], limit=99) == made[::-1]
    assert before(store, [NOVA], place_of(made[5]), 3) == made[4:1:-1]
    assert list(run(store.timeline.before([NOVA], None, 99, None, START + 4 * DAY))) == made[:3:-1]
    assert run(store.timeline.bursts([of.key for of in made])) == {of.key: of for of in made}


def test_a_grown_burst_keeps_its_place_and_a_restamped_one_moves(store: Store) -> None:
    store.bursts.write([burst(NOVA, 1, opened_at=START), burst(ORION, 1, opened_at=START + DAY)], [])
    moved = burst(NOVA, 1, version=2, opened_at=START + 2 * DAY)
    store.bursts.write([moved], [])
    assert [found.key.subject for found in before(store, [NOVA, ORION])] == [NOVA, ORION]
    assert before(store, [NOVA], place_of(moved)) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    opened=st.lists(
        st.tuples(st.sampled_from(SUBJECTS), st.integers(1, 12), st.integers(0, 3)),
        max_size=30,
        unique_by=lambda made: made[:2],
    ),
    limit=st.integers(1, 5),
)
def test_pages_of_any_size_give_every_burst_once_in_order(
    store: Store, opened: list[tuple[Subject, int, int]], limit: int
) -> None:
    """Many open in the same millisecond, so that the order by key decides. Within a subject none opens before the
    one whose number it follows: no head would let it."""
    example = next(EXAMPLES)
    lates = {s: iter(sorted(late for of, _, late in opened if of == s)) for s in SUBJECTS}
    own = {subject: Subject(Kind.MENTION, UserId(f"{subject.owner}{example}")) for subject in SUBJECTS}
    made = [
        burst(own[s], seq, opened_at=START + next(lates[s]) * timedelta(milliseconds=1)) for s, seq, _ in sorted(opened)
    ]
    store.bursts.write(made, [])
    found: list[Burst] = []
    for _ in range(len(made) + 1):
        found += before(store, list(own.values()), place_of(found[-1]) if found else None, limit)
    assert found == sorted(made, key=place_of, reverse=True)
