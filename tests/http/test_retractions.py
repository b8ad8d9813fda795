"""Retractions from `/v1/events`: hidden from pages, badges and open streams at once."""

import asyncio
from collections.abc import Collection
from threading import Event as Signal
from typing import Any, cast

import pytest
from litestar.testing import TestClient

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.retraction import Retraction, erasure_key
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE, ERASED_TYPE, PROTECTED_TYPE
from tests.http.error_response_checks import assert_problem
from tests.http.live_stream_client import WAIT_LIMIT, LiveBackend, event_types, run_live
from tests.support.example_event_and_acceptance import accept, event
from tests.support.in_memory_http_api import SERVICE_KEY, ApiClient, MemoryBackend

T1 = {"tweet": "te1", "author": "ada"}
DELETED = {**event("d1"), "type": DELETED_TYPE, "data": {"tweet": "t1", "author": "ada"}}


def retraction_event(type: str, **data: object) -> dict[str, object]:
    return {**event(f"{type}"), "type": type, "data": data}


def tweets(api_client: ApiClient, user: str = "u1") -> list[str]:
    return [item["tweet"] for item in api_client.inbox(user).json()["items"]]


def open_burst(api_client: ApiClient) -> None:
    api_client.post(event("e1"))
    api_client.backend.sequence()
    assert len(tweets(api_client)) == 1


def test_deleted_tweet_is_on_no_page_and_in_no_badge(api_client: ApiClient) -> None:
    open_burst(api_client)
    response = api_client.post({**DELETED, "data": T1})
    assert (response.status_code, response.json()["status"]) == (202, "accepted")
    assert tweets(api_client) == []
    assert api_client.unread("u1") == {"count": 0, "more": False}
    fate = api_client.get_event("e1").json()["accounts"][0]["bursts"][0]
    assert (fate["count"], fate["note"]) == (0, "Retracted: no user sees it.")


def test_mention_of_an_already_deleted_tweet_is_refused(api_client: ApiClient) -> None:
    api_client.post({**DELETED, "data": T1})
    api_client.post(event("e1"))
    api_client.backend.sequence()
    assert tweets(api_client) == []
    assert {account["refusal"] for account in api_client.get_event("e1").json()["accounts"]} == {"retracted"}


@pytest.mark.parametrize(
    ("type", "data", "message"),
    [
        (DELETED_TYPE, {"tweet": "", "author": "ada"}, "data.tweet is empty"),
        (DELETED_TYPE, {"tweet": "t1"}, "author"),
        (
            EDITED_TYPE,
            {"tweet": "t1", "author": "ada", "mentions": [], "text": "", "sequence": 0},
            "data.sequence is 0",
        ),
        (EDITED_TYPE, {"tweet": "t1", "author": "ada", "mentions": ["x"] * 3, "sequence": 1}, "text"),
        (PROTECTED_TYPE, {"user": "x" * 300}, "data.user has 300 characters"),
        (ERASED_TYPE, {}, "user"),
    ],
)
def test_incomplete_retraction_is_refused_with_the_field(
    api_client: ApiClient, type: str, data: dict[str, object], message: str
) -> None:
    response = api_client.post(retraction_event(type, **data))
    assert_problem(response, 400, "bad_event")
    assert message in response.json()["detail"]


def test_batch_of_many_retractions_is_applied_from_the_log(api_client: ApiClient) -> None:
    open_burst(api_client)
    deletions = [{**DELETED, "id": f"d{n}", "data": {"tweet": f"x{n}", "author": "ada"}} for n in range(30)]
    api_client.batch(*deletions, {**DELETED, "data": T1})
    api_client.backend.sequence()
    assert tweets(api_client) == []


def test_slow_retraction_does_not_block_other_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retracting everything an author has written takes long, and only two batches pass the gateway at a time."""

    async def scenario(live: LiveBackend) -> None:
        retractions, released = live.backend.ports.retractions, Signal()
        write, started = retractions.write, list[object]()

        def write_slowly(records: Collection[Retraction]) -> None:
            started.append(records)
            released.wait(4 * WAIT_LIMIT)
            write(records)

        monkeypatch.setattr(retractions, "write", write_slowly)
        events = [retraction_event(ERASED_TYPE, user=f"a{n}") | {"id": f"r{n}"} for n in range(3)]
        responses = [
            asyncio.create_task(live.request("POST", "/v1/events", SERVICE_KEY, json=event_)) for event_ in events
        ]
        try:
            async with asyncio.timeout(2 * WAIT_LIMIT):
                while len(started) < 2:
                    await asyncio.sleep(0.001)
                await live.accept_mention()
        finally:
            released.set()
        assert {response.status_code for response in await asyncio.gather(*responses)} == {202}
        assert len(retractions.read_current({erasure_key(UserId(f"a{n}")) for n in range(3)})) == 3

    run_live(scenario)


def test_retraction_in_a_new_process_resets_no_stream() -> None:
    """A pump resets streams at its start for unpublished changes of its predecessor; an API process doesn't."""
    backend = MemoryBackend()
    api_client = ApiClient(backend, TestClient(backend.app()))
    open_burst(api_client)
    backend.system.live_publisher.has_missed_updates = True
    messages: asyncio.Queue[object] = asyncio.Queue()
    with TestClient(backend.app()) as client:
        backend.bus.listeners.append(cast(Any, messages))
        ApiClient(backend, client).post({**DELETED, "data": T1})
    assert [type(messages.get_nowait()) for _ in range(messages.qsize())] == [Burst, Burst]


def test_open_stream_hides_a_retracted_burst() -> None:
    async def scenario(live: LiveBackend) -> None:
        stream, stranger = await live.listen("u1"), await live.listen("ada")
        await live.mention("ada")
        _, row, _ = await stream.next_events(3)
        await live.settle()
        accept(live.backend.system, {**DELETED, "data": {**T1, "tweet": row.data["tweet"]}})
        hidden, count = await stream.next_events(2)
        assert (hidden.event, hidden.data) == ("hidden", {"burst": row.data["burst"]})
        assert count.data == {"count": 0, "more": False}
        await live.drain()
        assert event_types(stranger.events) == ["count"]

    run_live(scenario)
