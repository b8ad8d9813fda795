"""What a person marked on one device is on the streams of all others, whichever process they are open at."""

import pytest

from notifier.flow.live.stream import A_PAGE
from tests.http.listening_client import Studio, events, on_air
from tests.http.test_stream import A_WHILE


async def mark(studio: Studio, burst: str, mark: str) -> None:
    await studio.as_user("u1", "PUT", "/v1/inbox/marks", json={"bursts": [burst], "mark": mark})


async def first(studio: Studio) -> str:
    return str((await studio.as_user("u1", "GET", "/v1/inbox"))["items"][0]["burst"])


@pytest.mark.parametrize("elsewhere", [False, True])
def test_hiding_what_was_seen_moves_no_badge_and_is_told(elsewhere: bool) -> None:
    async def play(studio: Studio) -> None:
        other = Studio(house=studio.house) if elsewhere else studio
        await studio.mention()
        page = await studio.as_user("u1", "GET", "/v1/inbox")
        await studio.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": page["seen"]})
        ear = await other.listen("u1")
        await ear.hear()
        await mark(studio, page["items"][0]["burst"], "hidden")
        [hidden] = await ear.hear()
        assert (hidden.event, hidden.data) == ("hidden", {"burst": page["items"][0]["burst"]})
        await mark(studio, page["items"][0]["burst"], "read")
        [marked] = await ear.hear()
        assert (marked.event, marked.data) == ("marked", (await studio.as_user("u1", "GET", "/v1/inbox"))["items"][0])
        if elsewhere:
            await other.close()

    on_air(play)


def test_while_redis_stalls_marks_of_another_process_come_within_the_bound() -> None:
    async def play(studio: Studio) -> None:
        other = Studio(house=studio.house)
        await studio.mention()
        ear = await other.listen("u1")
        await ear.hear()
        studio.house.bus.stalled = True
        await mark(studio, await first(studio), "read")
        await studio.settle()
        await other.hub.refresh_old()
        assert events(await ear.hear(2)) == ["marked", "count"]
        await other.close()

    on_air(play)


def test_what_was_marked_while_a_client_was_away_is_a_reset() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        await (await studio.listen("u1")).leave()
        await studio.settle()
        ear = await studio.listen("u1")
        last = (await ear.hear())[-1].id
        await ear.leave()
        await mark(studio, await first(studio), "unread")
        assert events(await (await studio.listen("u1", last)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_an_event_s_id_covers_the_marks_that_were_told_with_it() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        await (await studio.listen("u1")).leave()
        await studio.settle()
        ear = await studio.listen("u1")
        await ear.hear()
        await mark(studio, await first(studio), "read")
        marked, count = await ear.hear(2)
        assert events(await (await studio.listen("u1", count.id)).hear()) == ["count"]
        assert events(await (await studio.listen("u1", marked.id)).hear(2)) == ["reset", "count"]

    on_air(play)


def test_more_marks_than_a_page_are_a_reset() -> None:
    async def play(studio: Studio) -> None:
        for _ in range(A_PAGE + 1):
            studio.house.clock.advance(A_WHILE)
            await studio.mention()
        ear = await studio.listen("u1")
        await ear.hear()
        page = await studio.as_user("u1", "GET", "/v1/inbox?limit=100")
        body = {"bursts": [item["burst"] for item in page["items"]], "mark": "read"}
        await studio.as_user("u1", "PUT", "/v1/inbox/marks", json=body)
        assert events(await ear.hear(2)) == ["reset", "count"]

    on_air(play)


def test_what_was_hidden_and_taken_back_is_unread_until_it_is_seen() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        ear, burst = await studio.listen("u1"), await first(studio)
        await ear.hear()
        await mark(studio, burst, "hidden")
        await ear.hear(2)
        await mark(studio, burst, "none")
        marked, count = await ear.hear(2)
        assert (marked.event, marked.data["unread"], count.data["count"]) == ("marked", True, 1)
        await studio.settle()
        token = (await studio.as_user("u1", "GET", "/v1/inbox"))["seen"]
        await studio.as_user("u1", "PUT", "/v1/inbox/seen", json={"token": token})
        assert (await ear.hear())[-1].data["count"] == 0

    on_air(play)


def test_nobody_else_hears_of_a_mark() -> None:
    async def play(studio: Studio) -> None:
        await studio.mention()
        ear = await studio.listen("u2")
        before = ear.body
        await mark(studio, await first(studio), "hidden")
        await studio.quiet()
        assert ear.body == before

    on_air(play)
