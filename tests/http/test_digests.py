"""A digest at the edge: of an account or of everything, one item a date, its marks, and what a stream is told."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.digest import Schedule
from notifier.domain.users.subject_preferences import Volume
from tests.http.listening_client import LiveHouse, event_types, run_live
from tests.http.problems import assert_problem
from tests.support.example_event import accept, event
from tests.support.fakes.clock import START
from tests.support.http_app import Edge

U1 = UserId("u1")
NOVA = "mention:nova"
DUE = START.replace(hour=18)
SECOND = timedelta(seconds=1)


def prefer(edge: Edge, body: object, path: str = f"/{NOVA}") -> httpx.Response:
    answer = edge.client.patch(f"/v1/preferences{path}", json=body, headers=edge.bearer("u1"))
    assert answer.status_code == 200, answer.text
    return answer


def at(edge: Edge, moment: datetime) -> None:
    edge.house.clock.advance(moment - edge.house.clock.now())


def items(edge: Edge, who: str = "u1") -> list[dict[str, Any]]:
    """By the list, with which the badge agrees."""
    found: list[dict[str, Any]] = edge.inbox(who).json()["items"]
    assert edge.unread(who) == {"count": sum(item["unread"] for item in found), "more": False}
    return found


def digested(edge: Edge, *authors: str) -> dict[str, Any]:
    """What u1 is told once the first day's is due."""
    prefer(edge, {"volume": "digest"})
    for author in authors or ("ada",):
        edge.mention(author)
        edge.house.clock.advance(timedelta(minutes=2))
    at(edge, DUE)
    [item] = items(edge)
    return item


def test_it_is_one_item_at_the_person_s_hour_and_others_are_told_singly(edge: Edge) -> None:
    prefer(edge, {"volume": "digest"})
    edge.mention("ada")
    edge.mention("bob")
    at(edge, START + timedelta(minutes=2))
    edge.mention("ada")
    assert (items(edge), len(items(edge, "u2"))) == ([], 2)
    at(edge, DUE - SECOND)
    assert items(edge) == []
    at(edge, DUE)
    [item] = items(edge)
    name = item.pop("burst")
    inside = item["digest"].pop("inside")
    assert item == {
        "subject": "digest:u1",
        "seq": int(DUE.timestamp()),
        "opened_at": "2026-01-05T18:00:00Z",
        "count": 3,
        "names": ["nova"],
        "more": False,
        "text": "Your digest: 3 mentions of @nova",
        "tweet": None,
        "unread": True,
        "digest": {"date": "2026-01-05", "accounts": [{"account": "nova", "count": 3}], "more": False},
    }
    assert [each["text"] for each in inside] == ["ada mentioned @nova", "ada and bob, 2 mentions of @nova"]
    assert {*inside[0]} == {"subject", "opened_at", "count", "names", "more", "text", "tweet"}
    edge.house.clock.advance(timedelta(days=2))
    assert [each["burst"] for each in items(edge)] == [name]


def test_of_everything_it_is_asked_for_with_hour_and_zone(edge: Edge) -> None:
    said = {"volume": "digest", "time_zone": "Asia/Kathmandu", "digest_hour": 20}
    answer = prefer(edge, said, "")
    assert {name: answer.json()[name] for name in said} == said
    edge.mention("ada")
    edge.mention("ada", "u1")
    at(edge, DUE.replace(hour=14, minute=15))
    told, oneself = items(edge)
    assert (told["opened_at"], told["digest"]["date"]) == ("2026-01-05T14:15:00Z", "2026-01-05")
    assert (oneself["subject"], oneself["digest"]) == ("self:u1", None)


def test_nothing_is_told_singly_and_in_a_digest_whatever_is_changed_when(edge: Edge) -> None:
    edge.mention("ada")
    assert [item["subject"] for item in items(edge)] == [NOVA]
    edge.house.clock.advance(timedelta(minutes=2))
    item = digested(edge, "bob")
    assert [each["names"] for each in item["digest"]["inside"]] == [["bob"]]
    prefer(edge, {"volume": "all"})
    assert items(edge) == []
    edge.house.clock.advance(timedelta(minutes=2))
    edge.mention("ada")
    assert [item["subject"] for item in items(edge)] == [NOVA]
    edge.house.clock.advance(SECOND)
    prefer(edge, {"volume": "digest"})
    at(edge, DUE + timedelta(days=1))
    assert items(edge) == []


def test_it_is_marked_seen_and_hidden_as_any_item(edge: Edge) -> None:
    name = digested(edge)["burst"]
    at(edge, DUE + timedelta(hours=1))
    for mark, listed in (("read", [False]), ("unread", [True]), ("hidden", []), ("none", [True])):
        assert edge.put("/v1/inbox/marks", "u1", {"bursts": [name], "mark": mark}).status_code == 204
        assert [item["unread"] for item in items(edge)] == listed
    assert edge.put("/v1/inbox/seen", "u1", {"token": edge.inbox("u1").json()["seen"]}).status_code == 204
    assert [item["unread"] for item in items(edge)] == [False]


def test_an_id_of_somebody_else_s_is_no_name_for_it(edge: Edge) -> None:
    name = digested(edge)["burst"]
    assert_problem(edge.put("/v1/inbox/marks", "u2", {"bursts": [name], "mark": "read"}), 400, "bad_mark")


def test_a_mark_of_one_that_is_no_more_is_not_found(edge: Edge) -> None:
    name = digested(edge)["burst"]
    prefer(edge, {"muted_until": "forever"})
    assert_problem(edge.put("/v1/inbox/marks", "u1", {"bursts": [name], "mark": "read"}), 404, "not_found")


def test_pages_go_through_it(edge: Edge) -> None:
    prefer(edge, {"volume": "digest"})
    for day in range(3):
        edge.mention("ada")
        at(edge, DUE + timedelta(days=day, minutes=1))
        edge.mention("ada", "u1")
        edge.house.clock.advance(timedelta(minutes=10))
    found, page = list[str](), edge.inbox("u1", limit=1).json()
    while page["next"]:
        found += [item["subject"] for item in page["items"]]
        page = edge.inbox("u1", limit=1, cursor=page["next"]).json()
    assert found + [item["subject"] for item in page["items"]] == ["self:u1", "digest:u1"] * 3
    tagged = edge.inbox("u1")
    assert edge.inbox("u1", {"If-None-Match": tagged.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize("kind", ["digest:u1", "self:u1"])
def test_a_digest_s_own_volume_is_no_preference(edge: Edge, kind: str) -> None:
    answer = edge.client.patch(f"/v1/preferences/{kind}", json={"volume": "off"}, headers=edge.bearer("u1"))
    assert_problem(answer, 400, "bad_preference")


def test_an_open_stream_is_told_when_it_falls_due_and_not_before() -> None:
    async def scenario(live: LiveHouse) -> None:
        clock = live.house.clock
        live.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        clock.advance(DUE - clock.now() + SECOND)
        await live.hub.hearers.remind()
        await live.drain()
        assert len(stream.events) == stream.consumed
        clock.advance(SECOND)
        await live.hub.hearers.remind()
        row, count = await stream.next_events(2)
        assert (row.event, row.data) == ("row", (await live.as_user("u1", "GET", "/v1/inbox"))["items"][0])
        assert (count.event, count.data) == ("count", {"count": 1, "more": False})
        await live.hub.hearers.remind()
        await live.drain()
        assert len(stream.events) == stream.consumed
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [row.data["burst"]], "mark": "read"})
        marked, count = await stream.next_events(2)
        assert (marked.event, marked.data["unread"], count.data["count"]) == ("marked", False, 0)

    run_live(scenario)


def test_a_day_without_anything_to_tell_moves_no_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        clock = live.house.clock
        live.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        clock.advance(DUE - clock.now() + 2 * SECOND)
        await live.hub.hearers.remind()
        await live.mention()
        await live.drain()
        assert len(stream.events) == stream.consumed
        [listener] = live.hub.hearers.listeners.values()
        assert listener.due_at == DUE + timedelta(days=1)

    run_live(scenario)


def test_who_was_away_while_it_fell_due_loads_the_page_again() -> None:
    async def scenario(live: LiveHouse) -> None:
        clock = live.house.clock
        live.house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        clock.advance(DUE - clock.now() - timedelta(minutes=1))
        await (await live.listen("u1")).disconnect()
        await live.settle()
        stream = await live.listen("u1")
        last = (await stream.next_events())[-1].id
        await stream.disconnect()
        assert event_types(await (await live.listen("u1", last)).next_events()) == ["count"]
        clock.advance(DUE - clock.now())
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_another_hour_is_a_reset_for_those_who_have_a_digest_and_nobody_else() -> None:
    async def scenario(live: LiveHouse) -> None:
        stream = await live.listen("u1")
        await stream.next_events()
        await live.as_user("u1", "PATCH", "/v1/preferences", json={"digest_hour": 9})
        await live.drain()
        assert len(stream.events) == stream.consumed
        await live.as_user("u1", "PATCH", "/v1/preferences", json={"volume": "digest"})
        assert event_types(await stream.next_events(1))[0] == "reset"
        await live.drain()
        stream.consumed = len(stream.events)
        await live.as_user("u1", "PATCH", "/v1/preferences", json={"digest_hour": 10})
        assert event_types(await stream.next_events(1))[0] == "reset"
        [listener] = live.hub.hearers.listeners.values()
        assert listener.viewer is not None
        assert listener.due_at == Schedule.of(listener.viewer.overall).due_of(live.house.clock.now())

    run_live(scenario)


def test_what_is_taken_back_is_in_no_digest_at_once_and_open_streams_load_the_page_again() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        for author in ("ada", "bob"):
            await live.mention(author)
            await live.drain()
            house.clock.advance(timedelta(minutes=2))
        house.clock.advance(DUE - house.clock.now() + 2 * SECOND)
        await live.hub.hearers.remind()
        row, _ = await stream.next_events(2)
        last = row.id
        for each, left in zip(row.data["digest"]["inside"], (1, 0), strict=True):
            taken = {"tweet": each["tweet"], "author": each["names"][0]}
            deleted = {**event(f"d{left}"), "type": DELETED_TYPE, "data": taken}
            accept(house.system, deleted)
            assert [said.event for said in await stream.next_events()][:1] == ["reset"]
            await live.hub.refresh_old()
            await live.drain()
            stream.consumed = len(stream.events)
            page = await live.as_user("u1", "GET", "/v1/inbox")
            assert [item["count"] for item in page["items"]] == [left][:left]
            assert stream.events[-1].data == page["badge"] == {"count": left, "more": False}
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_what_grows_in_a_digest_or_opens_for_the_next_one_moves_no_stream() -> None:
    async def scenario(live: LiveHouse) -> None:
        house = live.house
        house.people.arrange(U1, OverallWish(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        house.clock.advance(DUE - house.clock.now() - SECOND)
        await live.mention("ada")
        house.clock.advance(3 * SECOND)
        await live.hub.hearers.remind()
        await stream.next_events(2)
        await live.mention("bob")
        house.clock.advance(timedelta(minutes=2))
        await live.mention("ada")
        await live.hub.sweep()
        await live.drain()
        assert len(stream.events) == stream.consumed
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        assert item["count"] == 2

    run_live(scenario)
