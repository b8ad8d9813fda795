"""`GET /v1/system`: the operator's overview, computed at most once a second."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from notifier.api.background.overview_snapshots import SharedSnapshots
from notifier.domain.delivery.dead_letter_limit import DeadLetterTally, LaneStop, LimitKind
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import StoreUnavailable
from notifier.domain.push.circuit_breaker import OpenCircuit
from tests.http.demo_client import demo_visitor
from tests.http.error_response_checks import assert_problem
from tests.http.live_stream_client import ScriptedReader
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient


def test_overview_requires_the_service_key(api_client: ApiClient) -> None:
    assert_problem(api_client.http.get("/v1/system"), 401, "bad_token")
    assert_problem(api_client.http.get("/v1/system", headers=api_client.bearer("u1")), 403, "forbidden")
    response = api_client.http.get("/v1/system", headers=api_client.service)
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")


def test_burst_is_shown_with_its_tiers_and_counts(api_client: ApiClient) -> None:
    api_client.mention()
    api_client.backend.deliver()
    system = api_client.http.get("/v1/system", headers=api_client.service).json()
    running = system["running"]
    assert (running["burst"], running["count"], running["finished"]) == ("mention:nova#1", 1, True)
    assert running["tiers"]["p1"]["spans"] == [[0, 0, "done"]]
    assert (
        running["recipients"]["delivered"],
        running["recipients"]["expected"],
        running["recipients"]["balanced"],
    ) == (3, 3, True)
    assert system["redis"]["state"] == "rebuilding"


def test_open_circuits_and_pool_backlogs_are_shown(api_client: ApiClient) -> None:
    api_client.mention()
    api_client.backend.deliver()
    circuit = OpenCircuit(until=START, reason="503 UNAVAILABLE")
    api_client.backend.ports.circuit_report.publish("fcm", circuit, timedelta(seconds=30))
    system = api_client.http.get("/v1/system", headers=api_client.service).json()
    assert system["open_circuits"] == [
        {"line": "fcm", "until": f"{START:%Y-%m-%dT%H:%M:%S}Z", "reason": circuit.reason}
    ]
    assert set(system["backlog"]) == set(Pool)
    assert system["backlog"]["push.fcm"].keys() == {"slices", "deferred_slices", "delay_seconds"}
    assert system["running"]["deferred_until"] is None


def test_stopped_lane_is_shown_with_its_record_and_cause(api_client: ApiClient) -> None:
    stop = LaneStop(
        at=START, stopped_by="pump-1", kind=LimitKind.IN_WINDOW, limit=100, record="follows/0/7", cause="no"
    )
    api_client.backend.ports.lane_tallies.compare_and_set(DeadLetterTally(lane="follows", version=1, stop=stop))
    [lane] = api_client.http.get("/v1/system", headers=api_client.service).json()["stopped_lanes"]
    since = f"{START:%Y-%m-%dT%H:%M:%S}Z"
    assert lane == {"lane": "follows", "since": since, "limit": "in_window", "record": "follows/0/7", "cause": "no"}


def test_no_lane_is_stopped_in_a_healthy_system(api_client: ApiClient) -> None:
    assert api_client.http.get("/v1/system", headers=api_client.service).json()["stopped_lanes"] == []


def test_overview_without_the_store_is_503(api_client: ApiClient) -> None:
    api_client.backend.port_errors.store = StoreUnavailable()
    assert_problem(api_client.http.get("/v1/system", headers=api_client.service), 503, "store_unavailable")


def test_roles_come_from_the_pid_files(tmp_path: Path) -> None:
    (tmp_path / "run" / "up").mkdir(parents=True)
    (tmp_path / "run" / "up" / "p1").write_text("4711")
    (tmp_path / "run" / "up" / ".p2.12").write_text("12")
    with demo_visitor(tmp_path) as visitor:
        roles = visitor.client.get("/v1/system", headers=visitor.key).json()["roles"]
    assert roles == {"p1": {"pid": 4711, "replaced": 0}}


def test_thousand_watchers_cost_one_read_a_second() -> None:
    reads, seconds = [], [0.0]

    async def read() -> bytes:
        reads.append(seconds[0])
        await asyncio.sleep(0)
        return json.dumps(len(reads)).encode()

    async def watch_twice() -> list[bytes]:
        overview = SharedSnapshots(ScriptedReader(read), now=lambda: seconds[0])
        first = await asyncio.gather(*(overview.latest() for _ in range(1000)))
        seconds[0] = 1.0
        return [*first, *await asyncio.gather(*(overview.latest() for _ in range(1000)))]

    results = asyncio.run(watch_twice())
    assert reads == [0.0, 1.0]
    assert set(results) == {b"1", b"2"}


def test_watcher_gets_an_error_event_and_continues() -> None:
    results: list[bytes | StoreUnavailable] = [b"{}", StoreUnavailable("away"), b'{"a":1}']
    seconds = [0.0]

    async def read() -> bytes:
        response = results.pop(0)
        if isinstance(response, bytes):
            return response
        raise response

    async def pause(length: float) -> None:
        seconds[0] += length

    async def first_events() -> list[bytes]:
        events = SharedSnapshots(ScriptedReader(read), pause, lambda: seconds[0]).events()
        return [await anext(events) for _ in range(3)]

    assert asyncio.run(first_events()) == [
        b"event: system\ndata: {}\n\n",
        b'event: trouble\ndata: {"code":"store_unavailable"}\n\n',
        b'event: system\ndata: {"a":1}\n\n',
    ]


def test_read_survives_a_cancelled_watcher_and_stays_the_only_one() -> None:
    reads, released = list[int](), asyncio.Event()

    async def read() -> bytes:
        reads.append(1)
        await released.wait()
        return b"{}"

    async def scenario() -> bytes:
        overview = SharedSnapshots(ScriptedReader(read))
        first = asyncio.create_task(overview.latest())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(overview.latest())
        await asyncio.sleep(0)
        released.set()
        return await second

    assert asyncio.run(scenario()) == b"{}"
    assert reads == [1]


def test_failed_read_fails_all_waiting_watchers_and_is_repeated() -> None:
    results: list[bytes] = [b"{}"]
    reads = []

    async def read() -> bytes:
        reads.append(1)
        await asyncio.sleep(0)
        if len(reads) == 1:
            raise StoreUnavailable
        return results[0]

    async def scenario() -> None:
        overview = SharedSnapshots(ScriptedReader(read))
        first = await asyncio.gather(overview.latest(), overview.latest(), return_exceptions=True)
        assert [type(error) for error in first] == [StoreUnavailable] * 2
        assert await overview.latest() == b"{}"

    asyncio.run(scenario())
    assert len(reads) == 2
