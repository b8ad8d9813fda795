"""Inboxes are loaded before their first opening, when the user is active elsewhere."""

from time import monotonic, sleep

import pytest

from notifier.domain.upstream.validation import SEEN_TYPE
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge


def warm_ups(edge: Edge, result: str) -> float:
    return edge.backend.metrics.registry.get_sample_value("notifier_inbox_warm_ups_total", {"result": result}) or 0.0


def wait_for_warm_ups(edge: Edge, result: str, count: int = 1) -> None:
    deadline = monotonic() + 10
    while warm_ups(edge, result) < count:
        assert monotonic() < deadline, result
        sleep(0.01)


def store_calls(edge: Edge) -> float:
    return edge.backend.metrics.registry.get_sample_value("notifier_inbox_store_calls_total") or 0.0


def seen_event(user: str, id: str = "s1") -> dict[str, object]:
    return {**event(id), "type": SEEN_TYPE, "data": {"user": user}}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_user_seen_elsewhere_opens_a_warm_inbox(edge: Edge, batch: bool) -> None:
    edge.mention()
    response = edge.batch(seen_event("u1")) if batch else edge.post(seen_event("u1"))
    assert response.status_code == 202
    wait_for_warm_ups(edge, "done")
    before = store_calls(edge)
    [item] = edge.inbox("u1").json()["items"]
    assert item["subject"] == "mention:nova"
    assert store_calls(edge) == before


def test_first_request_for_something_else_warms_the_inbox(edge: Edge) -> None:
    for _ in range(2):
        assert edge.client.get("/v1/preferences", headers=edge.bearer("u1")).status_code == 200
    wait_for_warm_ups(edge, "done")
    assert warm_ups(edge, "known") == 0


def test_inbox_request_itself_is_not_a_warm_up(edge: Edge) -> None:
    assert edge.inbox("u1", limit=5).status_code == 200
    assert edge.unread("u1") is not None
    assert [warm_ups(edge, result) for result in ("done", "known", "failed")] == [0, 0, 0]


def test_cached_viewers_are_not_loaded_again(edge: Edge) -> None:
    edge.inbox("u1")
    edge.post(seen_event("u1"))
    wait_for_warm_ups(edge, "known")
    assert warm_ups(edge, "done") == 0


def test_warm_up_of_an_unknown_user_fails_harmlessly(edge: Edge) -> None:
    assert edge.post(seen_event("nobody")).status_code == 202
    wait_for_warm_ups(edge, "failed")
