"""Who blocks whom, said by `/v1/events`: at once in both people's lists, and what it hides isn't made up for."""

from datetime import timedelta

import pytest

from notifier.domain.upstream.validation import APPROVED_TYPE, BLOCKED_TYPE, UNBLOCKED_TYPE
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import Edge

A_WHILE = timedelta(minutes=2)
"""A mention later than this opens a burst of its own."""


def told(edge: Edge, type: str, sequence: int, **data: str) -> dict[str, object]:
    more = {"type": type, "data": {**data, "sequence": sequence}}
    return event(f"{type}{sequence}{data}", at=edge.house.clock.now()) | more


def say(edge: Edge, type: str, sequence: int, *, blocker: str = "u1", blocked: str = "nova") -> None:
    answer = edge.post(told(edge, type, sequence, blocker=blocker, blocked=blocked))
    assert answer.json()["status"] == "accepted"
    edge.house.sequence()


def shown(edge: Edge, user: str) -> list[str]:
    """The tweets of a list, newest first."""
    return [item["tweet"] for item in edge.inbox(user).json()["items"]]


@pytest.mark.parametrize("pair", [("u1", "nova"), ("nova", "u1")], ids=["blocks", "is blocked by"])
def test_of_an_account_that_one_blocks_or_is_blocked_by_nothing_is_seen_until_it_is_lifted(
    edge: Edge, pair: tuple[str, str]
) -> None:
    blocker, blocked = pair
    edge.mention()
    say(edge, BLOCKED_TYPE, 1, blocker=blocker, blocked=blocked)
    assert (shown(edge, "u1"), edge.unread("u1")) == ([], {"count": 0, "more": False})
    assert shown(edge, "u2") == ["tmention-0"]
    edge.house.clock.advance(A_WHILE)
    edge.mention()
    edge.house.clock.advance(A_WHILE)
    say(edge, UNBLOCKED_TYPE, 2, blocker=blocker, blocked=blocked)
    assert shown(edge, "u1") == []
    edge.mention()
    assert shown(edge, "u1") == ["tmention-4"]
    assert len(shown(edge, "u2")) == 3


def test_a_block_that_comes_late_is_none_and_of_two_alike_the_block_counts(edge: Edge) -> None:
    edge.mention()
    say(edge, UNBLOCKED_TYPE, 5, blocked="ada")
    say(edge, BLOCKED_TYPE, 4, blocked="ada")
    assert shown(edge, "u1") == ["tmention-0"]
    say(edge, BLOCKED_TYPE, 5, blocked="ada")
    assert shown(edge, "u1") == []


def test_what_a_mentioner_opened_is_there_again_once_unblocked(edge: Edge) -> None:
    edge.mention()
    say(edge, BLOCKED_TYPE, 1, blocker="ada", blocked="u1")
    assert shown(edge, "u1") == []
    say(edge, UNBLOCKED_TYPE, 2, blocker="ada", blocked="u1")
    assert shown(edge, "u1") == ["tmention-0"]


def test_who_was_approved_sees_what_opens_from_then_on(edge: Edge) -> None:
    edge.mention()
    edge.house.clock.advance(A_WHILE)
    assert edge.post(told(edge, APPROVED_TYPE, 1, follower="zoe", followed="nova")).status_code == 202
    edge.house.sequence()
    assert shown(edge, "zoe") == []
    edge.mention()
    assert len(shown(edge, "zoe")) == 1


def test_a_bad_block_of_a_batch_is_refused_by_its_name_and_the_others_are_taken(edge: Edge) -> None:
    good = told(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    bad = told(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="u1")
    found = edge.batch(good, bad).json()["results"]
    assert [one["status"] for one in found] == ["accepted", "refused"]
    assert found[1]["problem"]["detail"] == "data.blocker and data.blocked are both u1."


def test_there_is_no_dry_run_of_it(edge: Edge) -> None:
    body = told(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    asked = edge.client.post("/v1/events?dry_run=true", json=body, headers=edge.service)
    assert_problem(asked, 400, "not_supported")
