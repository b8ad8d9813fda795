"""External ids that end in a number, and ranges of them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.user_ids_to_members import (
    MAX_CACHED_RANGES,
    IdRange,
    IdRangeCache,
    consecutive_runs,
    split_id,
    users_in_ranges,
)
from notifier.domain.ids import Member, UserId


@pytest.mark.parametrize(
    ("user", "parts"),
    [
        ("u7", ("u", 7)),
        ("u0", ("u", 0)),
        ("7", ("", 7)),
        ("1234567890123456789", ("", 1_234_567_890_123_456_789)),
        ("1000000000000000000", ("", 10**18)),
        ("u07", ("u0", 7)),
        ("9999999999999999999", None),
        ("ada", None),
        ("u٧", None),
        ("u000", ("u00", 0)),
        ("u1234567890123456789012", ("u123", 4_567_890_123_456_789_012)),
        ("u1230000000000000000007", ("u123000000000000000000", 7)),
        ("", None),
    ],
)
def test_id_is_split_where_its_number_begins(user: str, parts: tuple[str, int] | None) -> None:
    assert split_id(UserId(user)) == parts


@pytest.mark.parametrize(("prefix", "first", "count"), [("u1", 0, 10), ("u", -1, 5), ("u", 0, 0), ("", 2**63 - 2, 5)])
def test_unreachable_id_range_is_refused(prefix: str, first: int, count: int) -> None:
    with pytest.raises(ValueError, match="not a valid range of ids"):
        IdRange(prefix=prefix, first=first, count=count, first_member=Member(0))


def test_successive_ids_are_found_in_any_order() -> None:
    ids = ["u3", "u1", "u2", "v7", "u9", "u8", "u2", "ada", "u07", "u10", "x1", "x2", "u09", "u08"]
    runs = {*consecutive_runs(map(UserId, ids), 2)}
    assert runs == {("u", 1, 3), ("u", 8, 3), ("x", 1, 2), ("u0", 7, 3)}
    assert {*consecutive_runs(map(UserId, ids), 3)} == runs - {("x", 1, 2)}
    assert [*consecutive_runs([], 1)] == []


RANGES = [
    IdRange(prefix=f"r{n}x", first=first, count=count, first_member=Member(member))
    for n, (first, count, member) in enumerate([(0, 7, 5), (9, 1, 12), (3, 2 * SHARD_MEMBERS, 20)])
]
MEMBER_SETS = st.sets(st.integers(0, 3 * SHARD_MEMBERS) | st.integers(0, 30))


@given(MEMBER_SETS)
def test_members_are_named_by_their_range(members: set[int]) -> None:
    questions: list[int] = []

    def below(asked: Sequence[Member]) -> list[IdRange | None]:
        questions.extend(asked)
        return [
            next((id_range for id_range in reversed(RANGES) if id_range.first_member <= member), None)
            for member in asked
        ]

    names = users_in_ranges(map(Member, members), below)
    assert names == {m: user for m in members for id_range in RANGES if (user := id_range.user_of(Member(m)))}
    assert len(questions) <= len({m // SHARD_MEMBERS for m in members}) + len(RANGES)


def test_range_read_concurrently_is_remembered_once() -> None:
    """Otherwise one range shared by all users of a process would evict every other range."""
    shared, rare = (IdRange(prefix=prefix, first=0, count=10, first_member=Member(0)) for prefix in "uv")
    known = IdRangeCache()
    for id_range in (shared, *[rare] * MAX_CACHED_RANGES):
        known.remember(id_range)
    assert (known.member_of(UserId("u3")), known.member_of(UserId("v3"))) == (3, 3)
