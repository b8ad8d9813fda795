"""User blocks from `/v1/events` apply to both users' lists at once."""

from datetime import timedelta

import pytest

from notifier.domain.upstream.validation import BLOCKED_TYPE, FOLLOW_APPROVED_TYPE, UNBLOCKED_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient

BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""


def block_event(api_client: ApiClient, type: str, sequence: int, **data: str) -> dict[str, object]:
    fields = {"type": type, "data": {**data, "sequence": sequence}}
    return event(f"{type}{sequence}{data}", at=api_client.backend.clock.now()) | fields


def accept(api_client: ApiClient, type: str, sequence: int, *, blocker: str = "u1", blocked: str = "nova") -> None:
    response = api_client.post(block_event(api_client, type, sequence, blocker=blocker, blocked=blocked))
    assert response.json()["status"] == "accepted"
    api_client.backend.sequence()


def shown_tweets(api_client: ApiClient, user: str) -> list[str]:
    """Return the tweets of the user's list, newest first."""
    return [item["tweet"] for item in api_client.inbox(user).json()["items"]]


@pytest.mark.parametrize("pair", [("u1", "nova"), ("nova", "u1")], ids=["blocks", "is blocked by"])
def test_blocked_account_is_hidden_until_unblocked(api_client: ApiClient, pair: tuple[str, str]) -> None:
    blocker, blocked = pair
    api_client.mention()
    accept(api_client, BLOCKED_TYPE, 1, blocker=blocker, blocked=blocked)
    assert (shown_tweets(api_client, "u1"), api_client.unread("u1")) == ([], {"count": 0, "more": False})
    assert shown_tweets(api_client, "u2") == ["tmention-0"]
    api_client.backend.clock.advance(BURST_WINDOW)
    api_client.mention()
    api_client.backend.clock.advance(BURST_WINDOW)
    accept(api_client, UNBLOCKED_TYPE, 2, blocker=blocker, blocked=blocked)
    assert shown_tweets(api_client, "u1") == []
    api_client.mention()
    assert shown_tweets(api_client, "u1") == ["tmention-4"]
    assert len(shown_tweets(api_client, "u2")) == 3


def test_late_block_loses_to_newer_unblock_and_wins_a_tie(api_client: ApiClient) -> None:
    api_client.mention()
    accept(api_client, UNBLOCKED_TYPE, 5, blocked="ada")
    accept(api_client, BLOCKED_TYPE, 4, blocked="ada")
    assert shown_tweets(api_client, "u1") == ["tmention-0"]
    accept(api_client, BLOCKED_TYPE, 5, blocked="ada")
    assert shown_tweets(api_client, "u1") == []


def test_bursts_of_an_unblocked_author_reappear(api_client: ApiClient) -> None:
    api_client.mention()
    accept(api_client, BLOCKED_TYPE, 1, blocker="ada", blocked="u1")
    assert shown_tweets(api_client, "u1") == []
    accept(api_client, UNBLOCKED_TYPE, 2, blocker="ada", blocked="u1")
    assert shown_tweets(api_client, "u1") == ["tmention-0"]


def test_approved_follower_sees_only_later_bursts(api_client: ApiClient) -> None:
    api_client.mention()
    api_client.backend.clock.advance(BURST_WINDOW)
    assert (
        api_client.post(block_event(api_client, FOLLOW_APPROVED_TYPE, 1, follower="zoe", followed="nova")).status_code
        == 202
    )
    api_client.backend.sequence()
    assert shown_tweets(api_client, "zoe") == []
    api_client.mention()
    assert len(shown_tweets(api_client, "zoe")) == 1


def test_bad_block_in_a_batch_is_refused_alone(api_client: ApiClient) -> None:
    good = block_event(api_client, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    bad = block_event(api_client, BLOCKED_TYPE, 1, blocker="u1", blocked="u1")
    results = api_client.batch(good, bad).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "refused"]
    assert results[1]["problem"]["detail"] == "data.blocker and data.blocked are both u1."


def test_block_has_no_dry_run(api_client: ApiClient) -> None:
    body = block_event(api_client, BLOCKED_TYPE, 1, blocker="u1", blocked="nova")
    response = api_client.http.post("/v1/events?dry_run=true", json=body, headers=api_client.service)
    assert_problem(response, 400, "not_supported")
