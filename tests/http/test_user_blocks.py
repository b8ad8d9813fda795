"""User blocks from `/v1/events` apply to both users' lists at once."""

from datetime import timedelta

import pytest

from notifier.domain.upstream.validation import APPROVED_TYPE, BLOCKED_TYPE, UNBLOCKED_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge

BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def block_event(edge: Edge, type: str, sequence: int, **data: str) -> dict[str, object]:
    fields = {"type": type, "data": {**data, "sequence": sequence}}
    return event(f"{type}{sequence}{data}", at=edge.backend.clock.now()) | fields


def accept(edge: Edge, type: str, sequence: int, *, blocker: str = "u1", blocked: str = "nova") -> None:
    response = edge.post(block_event(edge, type, sequence, blocker=blocker, blocked=blocked))
    assert response.json()["status"] == "accepted"
    edge.backend.sequence()


def shown_tweets(edge: Edge, user: str) -> list[str]:
    """Return the tweets of the user's list, newest first."""
    return [item["tweet"] for item in edge.inbox(user).json()["items"]]


@pytest.mark.parametrize("pair", [("u1", "nova"), ("nova", "u1")], ids=["blocks", "is blocked by"])
def test_blocked_account_is_hidden_until_unblocked(edge: Edge, pair: tuple[str, str]) -> None:
    blocker, blocked = pair
    edge.mention()
    accept(edge, BLOCKED_TYPE, 1, blocker=blocker, blocked=blocked)
    assert (shown_tweets(edge, "u1"), edge.unread("u1")) == ([], {"count": 0, "more": False})
    assert shown_tweets(edge, "u2") == ["tmention-0"]
    edge.backend.clock.advance(BURST_WINDOW)
    edge.mention()
    edge.backend.clock.advance(BURST_WINDOW)
    accept(edge, UNBLOCKED_TYPE, 2, blocker=blocker, blocked=blocked)
    assert shown_tweets(edge, "u1") == []
    edge.mention()
    assert shown_tweets(edge, "u1") == ["tmention-4"]
    assert len(shown_tweets(edge, "u2")) == 3


def test_late_block_loses_to_newer_unblock_and_wins_a_tie(edge: Edge) -> None:
    edge.mention()
    accept(edge, UNBLOCKED_TYPE, 5, blocked="ada")
    accept(edge, BLOCKED_TYPE, 4, blocked="ada")
    assert shown_tweets(edge, "u1") == ["tmention-0"]
    accept(edge, BLOCKED_TYPE, 5, blocked="ada")
    assert shown_tweets(edge, "u1") == []


def test_bursts_of_an_unblocked_author_reappear(edge: Edge) -> None:
    edge.mention()
    accept(edge, BLOCKED_TYPE, 1, blocker="ada", blocked="u1")
    assert shown_tweets(edge, "u1") == []
    accept(edge, UNBLOCKED_TYPE, 2, blocker="ada", blocked="u1")
    assert shown_tweets(edge, "u1") == ["tmention-0"]


def test_approved_follower_sees_only_later_bursts(edge: Edge) -> None:
    edge.mention()
    edge.backend.clock.advance(BURST_WINDOW)
    assert edge.post(block_event(edge, APPROVED_TYPE, 1, follower="zoe", followed="nova")).status_code == 202
    edge.backend.sequence()
    assert shown_tweets(edge, "zoe") == []
    edge.mention()
    assert len(shown_tweets(edge, "zoe")) == 1


def test_bad_block_in_a_batch_is_refused_alone(edge: Edge) -> None:
    good = block_event(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    bad = block_event(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="u1")
    results = edge.batch(good, bad).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "refused"]
    assert results[1]["problem"]["detail"] == "data.blocker and data.blocked are both u1."


def test_block_has_no_dry_run(edge: Edge) -> None:
    body = block_event(edge, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    response = edge.client.post("/v1/events?dry_run=true", json=body, headers=edge.service)
    assert_problem(response, 400, "not_supported")
