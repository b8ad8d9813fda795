"""`/v1/system`: for operators; one look a second, however many watch."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from notifier.api.background.overview import Looking
from notifier.domain.delivery.dead_letter_limit import LaneStop, LaneTally, LimitKind
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import StoreUnavailable
from notifier.domain.push.circuit_breaker import LeftAlone
from tests.http.demo_client import demo_visitor
from tests.http.listening_client import ScriptedReader
from tests.http.problems import assert_problem
from tests.support.fakes.clock import START
from tests.support.http_app import Edge


def test_it_takes_the_service_key(edge: Edge) -> None:
    assert_problem(edge.client.get("/v1/system"), 401, "bad_token")
    assert_problem(edge.client.get("/v1/system", headers=edge.bearer("u1")), 403, "forbidden")
    answer = edge.client.get("/v1/system", headers=edge.service)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


def test_a_burst_is_told_with_its_tiers_and_books(edge: Edge) -> None:
    edge.mention()
    edge.house.deliver()
    system = edge.client.get("/v1/system", headers=edge.service).json()
    running = system["running"]
    assert (running["burst"], running["count"], running["settled"]) == ("mention:nova#1", 1, True)
    assert running["tiers"]["p1"]["spans"] == [[0, 0, "done"]]
    assert (running["books"]["delivered"], running["books"]["expected"], running["books"]["balanced"]) == (3, 3, True)
    assert system["redis"]["state"] == "empty"


def test_whom_no_alerts_are_sent_to_is_told_and_how_far_each_pool_is(edge: Edge) -> None:
    edge.mention()
    edge.house.deliver()
    left = LeftAlone(until=START, reason="503 UNAVAILABLE")
    edge.house.ports.lines.tell("fcm", left, timedelta(seconds=30))
    system = edge.client.get("/v1/system", headers=edge.service).json()
    assert system["left_alone"] == [{"line": "fcm", "until": f"{START:%Y-%m-%dT%H:%M:%S}Z", "reason": left.reason}]
    assert set(system["behind"]) == set(Pool)
    assert system["behind"]["push.fcm"].keys() == {"slices", "later", "seconds"}
    assert system["running"]["waits_until"] is None


def test_stopped_lane_is_shown_with_its_record_and_cause(edge: Edge) -> None:
    stop = LaneStop(at=START, who="pump-1", kind=LimitKind.IN_WINDOW, limit=100, record="follows/0/7", cause="no")
    edge.house.ports.lane_tallies.swap(LaneTally(lane="follows", version=1, stop=stop))
    [lane] = edge.client.get("/v1/system", headers=edge.service).json()["stopped_lanes"]
    since = f"{START:%Y-%m-%dT%H:%M:%S}Z"
    assert lane == {"lane": "follows", "since": since, "limit": "in_window", "record": "follows/0/7", "cause": "no"}


def test_no_lane_is_stopped_in_a_healthy_system(edge: Edge) -> None:
    assert edge.client.get("/v1/system", headers=edge.service).json()["stopped_lanes"] == []


def test_without_the_store_it_says_so(edge: Edge) -> None:
    edge.house.broken.store = StoreUnavailable()
    assert_problem(edge.client.get("/v1/system", headers=edge.service), 503, "store_unavailable")


def test_roles_are_those_that_have_signed(tmp_path: Path) -> None:
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "p1").write_text("4711")
    (tmp_path / "run" / "up" / ".p2.12").write_text("12")
    with demo_visitor(tmp_path) as visitor:
        roles = visitor.client.get("/v1/system", headers=visitor.key).json()["roles"]
    assert roles == {"p1": {"pid": 4711, "replaced": 0}}


def test_a_thousand_watchers_cost_one_look_a_second() -> None:
    looks, seconds = [], [0.0]

    async def look() -> bytes:
        looks.append(seconds[0])
        await asyncio.sleep(0)
        return json.dumps(len(looks)).encode()

    async def all_watch() -> list[bytes]:
        looking = Looking(ScriptedReader(look), now=lambda: seconds[0])
        first = await asyncio.gather(*(looking.latest() for _ in range(1000)))
        seconds[0] = 1.0
        return [*first, *await asyncio.gather(*(looking.latest() for _ in range(1000)))]

    found = asyncio.run(all_watch())
    assert looks == [0.0, 1.0]
    assert set(found) == {b"1", b"2"}


def test_a_watcher_hears_of_trouble_and_goes_on() -> None:
    answers: list[bytes | StoreUnavailable] = [b"{}", StoreUnavailable("away"), b'{"a":1}']
    seconds = [0.0]

    async def look() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, bytes):
            return answer
        raise answer

    async def pause(length: float) -> None:
        seconds[0] += length

    async def heard() -> list[bytes]:
        events = Looking(ScriptedReader(look), pause, lambda: seconds[0]).events()
        return [await anext(events) for _ in range(3)]

    assert asyncio.run(heard()) == [
        b"event: system\ndata: {}\n\n",
        b'event: trouble\ndata: {"code":"store_unavailable"}\n\n',
        b'event: system\ndata: {"a":1}\n\n',
    ]


def test_a_look_goes_on_when_its_watcher_goes_and_no_other_begins_beside_it() -> None:
    begun, goes_on = list[int](), asyncio.Event()

    async def look() -> bytes:
        begun.append(1)
        await goes_on.wait()
        return b"{}"

    async def scenario() -> bytes:
        looking = Looking(ScriptedReader(look))
        first = asyncio.create_task(looking.latest())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(looking.latest())
        await asyncio.sleep(0)
        goes_on.set()
        return await second

    assert asyncio.run(scenario()) == b"{}"
    assert begun == [1]


def test_a_look_that_fails_is_told_to_all_who_wait_and_the_next_one_looks_again() -> None:
    answers: list[bytes] = [b"{}"]
    looks = []

    async def look() -> bytes:
        looks.append(1)
        await asyncio.sleep(0)
        if len(looks) == 1:
            raise StoreUnavailable
        return answers[0]

    async def scenario() -> None:
        looking = Looking(ScriptedReader(look))
        first = await asyncio.gather(looking.latest(), looking.latest(), return_exceptions=True)
        assert [type(each) for each in first] == [StoreUnavailable] * 2
        assert await looking.latest() == b"{}"

    asyncio.run(scenario())
    assert len(looks) == 2
