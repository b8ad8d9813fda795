"""The bench of alerts measures what it says: what is told twice, lost or guessed is wrong, and the floor does send."""

from contextlib import closing

import pytest

from notifier.ports.http2 import Reply, Silence
from notifier.testing.bench.push.floor import AT_ONCE, Floor
from notifier.testing.bench.push.partings import Arrived, parting, wrong
from notifier.testing.bench.push.posts import posts
from notifier.testing.http2.server import serving

ACCEPTED = Reply(status=200)
UNKNOWN, SAFE = (Silence(reason="cut", left=left) for left in (True, False))


@pytest.mark.parametrize("cuts", [False, True])
def test_partings_are_survived(cuts: bool) -> None:
    finding = parting(cuts=cuts).finding
    assert (finding.ok, finding.n) == (True, 3_000), finding.detail
    assert ("3,000 of 3,000 accepted" in finding.detail) == (not cuts)


@pytest.mark.parametrize(
    ("answer", "times", "cuts", "right"),
    [
        (ACCEPTED, 1, False, True),
        (ACCEPTED, 1, True, True),
        (ACCEPTED, 2, True, False),
        (ACCEPTED, 0, True, False),
        (UNKNOWN, 1, True, True),
        (UNKNOWN, 0, True, False),
        (UNKNOWN, 1, False, False),
        (SAFE, 0, True, False),
        (SAFE, 1, True, False),
    ],
)
def test_what_is_told_twice_lost_or_guessed_is_wrong(
    answer: Reply | Silence, times: int, cuts: bool, right: bool
) -> None:
    assert ([*wrong({"/a": answer}, {"/a": times}, cuts=cuts)] == []) == right


def test_who_was_rung_and_is_told_of_by_nobody_is_wrong() -> None:
    assert [*wrong({}, {"/a": 1}, cuts=True)] == ["/a was rung, and nobody told"]


def test_the_leanest_sender_sends_as_many_as_it_is_told_to() -> None:
    arrived = Arrived()
    with serving(arrived) as server:
        [first] = posts(server.origin, 1)
        with closing(Floor(first)) as floor:
            floor.send(3 * AT_ONCE)
    assert arrived.paths == {first.path: 3 * AT_ONCE + 1}


def test_each_post_has_its_own_device_and_id() -> None:
    made = [*posts("https://push.example", 100)]
    assert len({post.path for post in made}) == len({post.headers[-1] for post in made}) == 100
