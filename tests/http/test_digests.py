"""Digests in the API: items, marks, pages and stream events."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.digest import DigestSchedule
from notifier.domain.users.subject_preferences import Volume
from tests.http.error_response_checks import assert_problem
from tests.http.live_stream_client import LiveBackend, event_types, run_live
from tests.support.example_event_and_acceptance import accept, event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient

U1 = UserId("u1")
NOVA = "mention:nova"
DUE = START.replace(hour=18)
SECOND = timedelta(seconds=1)


def prefer(api_client: ApiClient, body: object, path: str = f"/{NOVA}") -> httpx.Response:
    response = api_client.http.patch(f"/v1/preferences{path}", json=body, headers=api_client.bearer("u1"))
    assert response.status_code == 200, response.text
    return response


def advance_to(api_client: ApiClient, time: datetime) -> None:
    api_client.backend.clock.advance(time - api_client.backend.clock.now())


def items(api_client: ApiClient, user: str = "u1") -> list[dict[str, Any]]:
    """Return the list, and check that the badge agrees."""
    listed: list[dict[str, Any]] = api_client.inbox(user).json()["items"]
    assert api_client.unread(user) == {"count": sum(item["unread"] for item in listed), "more": False}
    return listed


def due_digest(api_client: ApiClient, *authors: str) -> dict[str, Any]:
    """Return u1's first digest, at the time it is due."""
    prefer(api_client, {"volume": "digest"})
    for author in authors or ("ada",):
        api_client.mention(author)
        api_client.backend.clock.advance(timedelta(minutes=2))
    advance_to(api_client, DUE)
    [item] = items(api_client)
    return item


def test_digest_is_one_item_at_the_user_s_hour(api_client: ApiClient) -> None:
    prefer(api_client, {"volume": "digest"})
    api_client.mention("ada")
    api_client.mention("bob")
    advance_to(api_client, START + timedelta(minutes=2))
    api_client.mention("ada")
    assert (items(api_client), len(items(api_client, "u2"))) == ([], 2)
    advance_to(api_client, DUE - SECOND)
    assert items(api_client) == []
    advance_to(api_client, DUE)
    [item] = items(api_client)
    name = item.pop("burst")
    inside = item["digest"].pop("bursts")
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
    assert [burst["text"] for burst in inside] == ["ada mentioned @nova", "ada and bob, 2 mentions of @nova"]
    assert {*inside[0]} == {"subject", "opened_at", "count", "names", "more", "text", "tweet"}
    api_client.backend.clock.advance(timedelta(days=2))
    assert [item["burst"] for item in items(api_client)] == [name]


def test_account_wide_digest_uses_its_hour_and_time_zone(api_client: ApiClient) -> None:
    changes = {"volume": "digest", "time_zone": "Asia/Kathmandu", "digest_hour": 20}
    response = prefer(api_client, changes, "")
    assert {name: response.json()[name] for name in changes} == changes
    api_client.mention("ada")
    api_client.mention("ada", "u1")
    advance_to(api_client, DUE.replace(hour=14, minute=15))
    digest, own_item = items(api_client)
    assert (digest["opened_at"], digest["digest"]["date"]) == ("2026-01-05T14:15:00Z", "2026-01-05")
    assert (own_item["subject"], own_item["digest"]) == ("self:u1", None)


def test_burst_is_never_both_listed_and_in_a_digest(api_client: ApiClient) -> None:
    api_client.mention("ada")
    assert [item["subject"] for item in items(api_client)] == [NOVA]
    api_client.backend.clock.advance(timedelta(minutes=2))
    item = due_digest(api_client, "bob")
    assert [burst["names"] for burst in item["digest"]["bursts"]] == [["bob"]]
    prefer(api_client, {"volume": "all"})
    assert items(api_client) == []
    api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.mention("ada")
    assert [item["subject"] for item in items(api_client)] == [NOVA]
    api_client.backend.clock.advance(SECOND)
    prefer(api_client, {"volume": "digest"})
    advance_to(api_client, DUE + timedelta(days=1))
    assert items(api_client) == []


def test_digest_can_be_marked_seen_and_hidden(api_client: ApiClient) -> None:
    name = due_digest(api_client)["burst"]
    advance_to(api_client, DUE + timedelta(hours=1))
    for mark, listed in (("read", [False]), ("unread", [True]), ("hidden", []), ("none", [True])):
        assert api_client.put("/v1/inbox/marks", "u1", {"bursts": [name], "mark": mark}).status_code == 204
        assert [item["unread"] for item in items(api_client)] == listed
    assert api_client.put("/v1/inbox/seen", "u1", {"token": api_client.inbox("u1").json()["seen"]}).status_code == 204
    assert [item["unread"] for item in items(api_client)] == [False]


def test_digest_id_of_another_user_is_rejected(api_client: ApiClient) -> None:
    name = due_digest(api_client)["burst"]
    assert_problem(api_client.put("/v1/inbox/marks", "u2", {"bursts": [name], "mark": "read"}), 400, "bad_mark")


def test_mark_of_a_vanished_digest_is_not_found(api_client: ApiClient) -> None:
    name = due_digest(api_client)["burst"]
    prefer(api_client, {"muted_until": "forever"})
    assert_problem(api_client.put("/v1/inbox/marks", "u1", {"bursts": [name], "mark": "read"}), 404, "not_found")


def test_pagination_includes_digests(api_client: ApiClient) -> None:
    prefer(api_client, {"volume": "digest"})
    for day in range(3):
        api_client.mention("ada")
        advance_to(api_client, DUE + timedelta(days=day, minutes=1))
        api_client.mention("ada", "u1")
        api_client.backend.clock.advance(timedelta(minutes=10))
    subjects, page = list[str](), api_client.inbox("u1", limit=1).json()
    while page["next"]:
        subjects += [item["subject"] for item in page["items"]]
        page = api_client.inbox("u1", limit=1, cursor=page["next"]).json()
    assert subjects + [item["subject"] for item in page["items"]] == ["self:u1", "digest:u1"] * 3
    tagged = api_client.inbox("u1")
    assert api_client.inbox("u1", {"If-None-Match": tagged.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize("kind", ["digest:u1", "self:u1"])
def test_digest_and_own_subject_take_no_preference(api_client: ApiClient, kind: str) -> None:
    response = api_client.http.patch(f"/v1/preferences/{kind}", json={"volume": "off"}, headers=api_client.bearer("u1"))
    assert_problem(response, 400, "bad_preference")


def test_stream_sends_a_digest_when_it_is_due_and_not_before() -> None:
    async def scenario(live: LiveBackend) -> None:
        clock = live.backend.clock
        live.backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        await live.mention()
        clock.advance(DUE - clock.now() + SECOND)
        await live.hub.registry.send_due_digests()
        await live.drain()
        assert len(stream.events) == stream.consumed
        clock.advance(SECOND)
        await live.hub.registry.send_due_digests()
        row, count = await stream.next_events(2)
        assert (row.event, row.data) == ("row", (await live.as_user("u1", "GET", "/v1/inbox"))["items"][0])
        assert (count.event, count.data) == ("count", {"count": 1, "more": False})
        await live.hub.registry.send_due_digests()
        await live.drain()
        assert len(stream.events) == stream.consumed
        await live.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [row.data["burst"]], "mark": "read"})
        marked, count = await stream.next_events(2)
        assert (marked.event, marked.data["unread"], count.data["count"]) == ("marked", False, 0)

    run_live(scenario)


def test_empty_digest_sends_nothing_to_streams() -> None:
    async def scenario(live: LiveBackend) -> None:
        clock = live.backend.clock
        live.backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        clock.advance(DUE - clock.now() + 2 * SECOND)
        await live.hub.registry.send_due_digests()
        await live.mention()
        await live.drain()
        assert len(stream.events) == stream.consumed
        [listener] = live.hub.registry.listeners.values()
        assert listener.next_digest_at == DUE + timedelta(days=1)

    run_live(scenario)


def test_resume_after_a_digest_fell_due_is_a_reset() -> None:
    async def scenario(live: LiveBackend) -> None:
        clock = live.backend.clock
        live.backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
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


def test_digest_hour_change_resets_only_streams_with_a_digest() -> None:
    async def scenario(live: LiveBackend) -> None:
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
        [listener] = live.hub.registry.listeners.values()
        assert listener.viewer is not None
        assert listener.next_digest_at == DigestSchedule.of(listener.viewer.account_preferences).next_due_time(
            live.backend.clock.now()
        )

    run_live(scenario)


def test_retraction_inside_a_digest_resets_open_streams() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        for author in ("ada", "bob"):
            await live.mention(author)
            await live.drain()
            backend.clock.advance(timedelta(minutes=2))
        backend.clock.advance(DUE - backend.clock.now() + 2 * SECOND)
        await live.hub.registry.send_due_digests()
        row, _ = await stream.next_events(2)
        last = row.id
        for burst, remaining in zip(row.data["digest"]["bursts"], (1, 0), strict=True):
            retracted = {"tweet": burst["tweet"], "author": burst["names"][0]}
            deleted = {**event(f"d{remaining}"), "type": DELETED_TYPE, "data": retracted}
            accept(backend.system, deleted)
            assert [entry.event for entry in await stream.next_events()][:1] == ["reset"]
            await live.hub.refresh_outdated()
            await live.drain()
            stream.consumed = len(stream.events)
            page = await live.as_user("u1", "GET", "/v1/inbox")
            assert [item["count"] for item in page["items"]] == [remaining][:remaining]
            assert stream.events[-1].data == page["badge"] == {"count": remaining, "more": False}
        assert event_types(await (await live.listen("u1", last)).next_events(2)) == ["reset", "count"]

    run_live(scenario)


def test_change_inside_a_digest_sends_nothing_to_streams() -> None:
    async def scenario(live: LiveBackend) -> None:
        backend = live.backend
        backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.DIGEST))
        stream = await live.listen("u1")
        await stream.next_events()
        backend.clock.advance(DUE - backend.clock.now() - SECOND)
        await live.mention("ada")
        backend.clock.advance(3 * SECOND)
        await live.hub.registry.send_due_digests()
        await stream.next_events(2)
        await live.mention("bob")
        backend.clock.advance(timedelta(minutes=2))
        await live.mention("ada")
        await live.hub.sweep()
        await live.drain()
        assert len(stream.events) == stream.consumed
        [item] = (await live.as_user("u1", "GET", "/v1/inbox"))["items"]
        assert item["count"] == 2

    run_live(scenario)
