"""Inboxes are loaded before their first opening, when the user is active elsewhere."""

from time import monotonic, sleep

import pytest

from notifier.domain.upstream.validation import SEEN_TYPE
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient


def warm_ups(api_client: ApiClient, result: str) -> float:
    return (
        api_client.backend.metrics.registry.get_sample_value("notifier_inbox_warm_ups_total", {"result": result}) or 0.0
    )


def wait_for_warm_ups(api_client: ApiClient, result: str, count: int = 1) -> None:
    deadline = monotonic() + 10
    while warm_ups(api_client, result) < count:
        assert monotonic() < deadline, result
        sleep(0.01)


def store_calls(api_client: ApiClient) -> float:
    return api_client.backend.metrics.registry.get_sample_value("notifier_inbox_store_calls_total") or 0.0


def seen_event(user: str, id: str = "s1") -> dict[str, object]:
    return {**event(id), "type": SEEN_TYPE, "data": {"user": user}}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_user_seen_elsewhere_opens_a_warm_inbox(api_client: ApiClient, batch: bool) -> None:
    api_client.mention()
    response = api_client.batch(seen_event("u1")) if batch else api_client.post(seen_event("u1"))
    assert response.status_code == 202
    wait_for_warm_ups(api_client, "done")
    before = store_calls(api_client)
    [item] = api_client.inbox("u1").json()["items"]
    assert item["subject"] == "mention:nova"
    assert store_calls(api_client) == before


def test_first_request_for_something_else_warms_the_inbox(api_client: ApiClient) -> None:
    for _ in range(2):
        assert api_client.http.get("/v1/preferences", headers=api_client.bearer("u1")).status_code == 200
    wait_for_warm_ups(api_client, "done")
    assert warm_ups(api_client, "known") == 0


def test_inbox_request_itself_is_not_a_warm_up(api_client: ApiClient) -> None:
    assert api_client.inbox("u1", limit=5).status_code == 200
    assert api_client.unread("u1") is not None
    assert [warm_ups(api_client, result) for result in ("done", "known", "failed")] == [0, 0, 0]


def test_cached_viewers_are_not_loaded_again(api_client: ApiClient) -> None:
    api_client.inbox("u1")
    api_client.post(seen_event("u1"))
    wait_for_warm_ups(api_client, "known")
    assert warm_ups(api_client, "done") == 0


def test_warm_up_of_an_unknown_user_fails_harmlessly(api_client: ApiClient) -> None:
    assert api_client.post(seen_event("nobody")).status_code == 202
    wait_for_warm_ups(api_client, "failed")
