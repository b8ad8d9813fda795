"""Outside ids that end in a number, and ranges of them."""

import pytest

from notifier.domain.numbers import IdRange, numbered, successive
from notifier.domain.subject import Member, UserId


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
def test_an_id_is_split_where_its_number_begins(user: str, parts: tuple[str, int] | None) -> None:
    assert numbered(UserId(user)) == parts


@pytest.mark.parametrize(("prefix", "first", "count"), [("u1", 0, 10), ("u", -1, 5), ("u", 0, 0), ("", 2**63 - 2, 5)])
def test_a_range_of_ids_that_nobody_would_find_is_refused(prefix: str, first: int, count: int) -> None:
    with pytest.raises(ValueError, match="no range of ids"):
        IdRange(prefix=prefix, first=first, count=count, member=Member(0))


def test_runs_of_ids_that_follow_one_another_are_found_in_any_order() -> None:
    ids = ["u3", "u1", "u2", "v7", "u9", "u8", "u2", "ada", "u07", "u10", "x1", "x2", "u09", "u08"]
    found = {*successive(map(UserId, ids), 2)}
    assert found == {("u", 1, 3), ("u", 8, 3), ("x", 1, 2), ("u0", 7, 3)}
    assert {*successive(map(UserId, ids), 3)} == found - {("x", 1, 2)}
    assert [*successive([], 1)] == []
