"""Inboxes are read ahead of their first opening: of whoever was seen elsewhere, or asks for something else first."""

from time import monotonic, sleep

import pytest

from notifier.domain.upstream.validation import SEEN_TYPE
from tests.support.example_event import event
from tests.support.http_app import Edge


def counted(edge: Edge, result: str) -> float:
    return edge.house.metrics.registry.get_sample_value("notifier_inbox_warm_ups_total", {"result": result}) or 0.0


def until_counted(edge: Edge, result: str, count: int = 1) -> None:
    deadline = monotonic() + 10
    while counted(edge, result) < count:
        assert monotonic() < deadline, result
        sleep(0.01)


def store_calls(edge: Edge) -> float:
    return edge.house.metrics.registry.get_sample_value("notifier_inbox_store_calls_total") or 0.0


def seen(user: str, id: str = "s1") -> dict[str, object]:
    return {**event(id), "type": SEEN_TYPE, "data": {"user": user}}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_who_was_seen_elsewhere_opens_a_warm_inbox(edge: Edge, batch: bool) -> None:
    edge.mention()
    answer = edge.batch(seen("u1")) if batch else edge.post(seen("u1"))
    assert answer.status_code == 202
    until_counted(edge, "done")
    before = store_calls(edge)
    [item] = edge.inbox("u1").json()["items"]
    assert item["subject"] == "mention:nova"
    assert store_calls(edge) == before


def test_first_token_that_asks_for_something_else_warms_the_inbox(edge: Edge) -> None:
    for _ in range(2):
        assert edge.client.get("/v1/preferences", headers=edge.bearer("u1")).status_code == 200
    until_counted(edge, "done")
    assert counted(edge, "known") == 0


def test_opening_the_inbox_is_not_read_ahead(edge: Edge) -> None:
    assert edge.inbox("u1", limit=5).status_code == 200
    assert edge.unread("u1") is not None
    assert [counted(edge, result) for result in ("done", "known", "failed")] == [0, 0, 0]


def test_known_viewers_are_not_read_again(edge: Edge) -> None:
    edge.inbox("u1")
    edge.post(seen("u1"))
    until_counted(edge, "known")


def test_unknown_users_are_counted_and_hurt_nobody(edge: Edge) -> None:
    assert edge.post(seen("nobody")).status_code == 202
    until_counted(edge, "failed")
