"""What is taken back by `/v1/events`: hidden from pages and badges by the answer, and told to open streams."""

import asyncio
from collections.abc import Collection
from threading import Event as Signal
from typing import Any, cast

import pytest
from litestar.testing import TestClient

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.retraction import Retraction, erased_trail
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE, EDITED_TYPE, ERASED_TYPE, PROTECTED_TYPE
from tests.http.listening_client import WAIT_LIMIT, LiveHouse, event_types, run_live
from tests.http.problems import assert_problem
from tests.support.example_event import accept, event
from tests.support.http_app import SERVICE_KEY, Edge, House

T1 = {"tweet": "te1", "author": "ada"}
DELETED = {**event("d1"), "type": DELETED_TYPE, "data": {"tweet": "t1", "author": "ada"}}


def of(type: str, **data: object) -> dict[str, object]:
    return {**event(f"{type}"), "type": type, "data": data}


def tweets(edge: Edge, user: str = "u1") -> list[str]:
    return [item["tweet"] for item in edge.inbox(user).json()["items"]]


def mentioned(edge: Edge) -> None:
    edge.post(event("e1"))
    edge.house.sequence()
    assert len(tweets(edge)) == 1


def test_what_is_deleted_is_on_no_page_and_no_badge_once_it_is_accepted(edge: Edge) -> None:
    mentioned(edge)
    answer = edge.post({**DELETED, "data": T1})
    assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
    assert tweets(edge) == []
    assert edge.unread("u1") == {"count": 0, "more": False}
    fate = edge.fate("e1").json()["accounts"][0]["bursts"][0]
    assert (fate["count"], fate["note"]) == (0, "Taken back: nobody sees it any more.")


def test_what_was_deleted_before_it_came_tells_so(edge: Edge) -> None:
    edge.post({**DELETED, "data": T1})
    edge.post(event("e1"))
    edge.house.sequence()
    assert tweets(edge) == []
    assert {one["refusal"] for one in edge.fate("e1").json()["accounts"]} == {"retracted"}


@pytest.mark.parametrize(
    ("type", "data", "words"),
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
def test_one_that_is_not_whole_is_refused_with_the_field(
    edge: Edge, type: str, data: dict[str, object], words: str
) -> None:
    answer = edge.post(of(type, **data))
    assert_problem(answer, 400, "bad_event")
    assert words in answer.json()["detail"]


def test_a_batch_of_many_is_taken_at_once_and_done_from_the_log(edge: Edge) -> None:
    mentioned(edge)
    many = [{**DELETED, "id": f"d{n}", "data": {"tweet": f"x{n}", "author": "ada"}} for n in range(30)]
    edge.batch(*many, {**DELETED, "data": T1})
    edge.house.sequence()
    assert tweets(edge) == []


def test_nobody_waits_behind_what_is_being_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that an author has written takes its time, and single events go through the gateway by two groups."""

    async def scenario(live: LiveHouse) -> None:
        retractions, going = live.house.ports.retractions, Signal()
        write, begun = retractions.write, list[object]()

        def slowly(words: Collection[Retraction]) -> None:
            begun.append(words)
            going.wait(WAIT_LIMIT)
            write(words)

        monkeypatch.setattr(retractions, "write", slowly)
        said = [of(ERASED_TYPE, user=f"a{n}") | {"id": f"r{n}"} for n in range(3)]
        answers = [asyncio.create_task(live.request("POST", "/v1/events", SERVICE_KEY, json=one)) for one in said]
        try:
            async with asyncio.timeout(WAIT_LIMIT / 2):
                while len(begun) < 2:
                    await asyncio.sleep(0.001)
                await live.accept_mention()
        finally:
            going.set()
        assert {answer.status_code for answer in await asyncio.gather(*answers)} == {202}
        assert len(retractions.standing({erased_trail(UserId(f"a{n}")) for n in range(3)})) == 3

    run_live(scenario)


def test_a_process_that_has_just_begun_has_nobody_load_the_page_again() -> None:
    """A pump's has, for what a predecessor may have left unsaid; of what is taken back the retractor says that."""
    house = House()
    edge = Edge(house, TestClient(house.app()))
    mentioned(edge)
    house.system.live_publisher.missed = True
    line: asyncio.Queue[object] = asyncio.Queue()
    with TestClient(house.app()) as client:
        house.bus.lines.append(cast(Any, line))
        Edge(house, client).post({**DELETED, "data": T1})
    assert [type(line.get_nowait()) for _ in range(line.qsize())] == [Burst, Burst]


def test_open_streams_hide_what_was_taken_back_and_count_it_no_more() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream, stranger = await live.listen("u1"), await live.listen("ada")
        await live.mention("ada")
        _, row, _ = await stream.next_events(3)
        await live.settle()
        accept(live.house.system, {**DELETED, "data": {**T1, "tweet": row.data["tweet"]}})
        hidden, count = await stream.next_events(2)
        assert (hidden.event, hidden.data) == ("hidden", {"burst": row.data["burst"]})
        assert count.data == {"count": 0, "more": False}
        await live.drain()
        assert event_types(stranger.said) == ["count"]

    run_live(scenario)
