"""`notifier up --workers 2`: two API processes on one port see each other's writes."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from notifier.api.demo.traffic import mention_batch
from notifier.cli.supervisor.pid_files import pid_files_of
from tests.cli.conftest import Notifier
from tests.cli.running_service import GONE_WITHIN, STARTS_WITHIN, Running, SharedService, is_running, until
from tests.cli.service_caller import ANSWERS_WITHIN, calling

PROCESSES = ("api", "api-2")
MOST_TRIES = 100
"""Connections. The kernel assigns each to one of the two processes at random."""


@pytest.fixture(scope="module")
def service(small_world: Path) -> Iterator[SharedService]:
    shared = SharedService(data=small_world, options=("--workers", "2"))
    yield shared
    shared.end()


@pytest.fixture
def running(service: SharedService) -> Running:
    """Wait until both processes answer: `up` itself waits for the first only."""
    up = service.running()
    until(lambda: all(_has_started(up, name) for name in PROCESSES), STARTS_WITHIN)
    return up


@pytest.fixture
def user_headers(running: Running, notifier: Notifier) -> Mapping[str, str]:
    """Authorization of nova, the account in every mention of these tests."""
    return {"Authorization": f"Bearer {notifier('token', 'nova', '--data', str(running.data)).output.strip()}"}


@contextmanager
def connections(running: Running) -> Iterator[Mapping[str, httpx.Client]]:
    """Yield one kept connection to each API process, by its name."""
    with ExitStack() as stack:
        by_name: dict[str, httpx.Client] = {}
        for _ in range(MOST_TRIES):
            client = stack.enter_context(httpx.Client(base_url=running.ready.url, timeout=ANSWERS_WITHIN))
            by_name.setdefault(served_by(running, client), client)
            if set(by_name) == set(PROCESSES):
                break
        assert set(by_name) == set(PROCESSES)
        yield by_name


def served_by(running: Running, client: httpx.Client) -> str:
    """Return the process at the other end of the client's connection."""
    with client.stream("GET", "/healthz") as response:
        port = response.extensions["network_stream"].get_extra_info("client_addr")[1]
        response.read()
    return owner_of(running, port)


def owner_of(running: Running, local_port: int) -> str:
    by_name = {name: psutil.Process(running.ready.pids[name]) for name in PROCESSES}
    [owner] = [
        name
        for name, process in by_name.items()
        if any(c.raddr and c.raddr.port == local_port for c in process.net_connections("tcp"))
    ]
    return owner


@pytest.mark.timeout(120)
def test_two_processes_share_one_url_and_are_listed_everywhere(running: Running, notifier: Notifier) -> None:
    ready, data = running.ready, str(running.data)
    assert len({ready.pids[name] for name in PROCESSES}) == len(PROCESSES)
    top = json.loads(notifier("top", "--once", "--json", "--data", data).output)
    assert {process["role"] for process in top["processes"] if process["alive"]} == set(ready.pids)
    key = {"Authorization": f"Bearer {ready.service_key}"}
    with connections(running) as by_name:
        for client in by_name.values():
            assert client.get("/readyz").json()["status"] == "ready"
            roles = client.get("/v1/system", headers=key).json()["roles"]
            assert {name: roles[name]["pid"] for name in PROCESSES} == {name: ready.pids[name] for name in PROCESSES}


@pytest.mark.timeout(120)
def test_second_service_is_refused_on_the_shared_port(running: Running, notifier: Notifier, tmp_path: Path) -> None:
    port = str(urlsplit(running.ready.url).port)
    refused = notifier("up", "--data", str(tmp_path), "--port", port, "--workers", "2")
    assert (refused.exit_code, refused.stderr.startswith("The port is taken")) == (3, True)
    second_api = notifier("api", "--data", str(running.data), "--port", port)
    assert (second_api.exit_code, second_api.stderr.startswith("The port is taken")) == (3, True)


@pytest.mark.timeout(120)
def test_writes_through_one_process_are_read_through_the_other(
    running: Running, user_headers: Mapping[str, str]
) -> None:
    with calling(running.ready, "") as caller:
        assert caller.post_is_accepted("read-your-writes")
        until(lambda: caller.is_finished("read-your-writes"), STARTS_WITHIN)
    with connections(running) as by_name:
        first, second = by_name["api"], by_name["api-2"]
        for writing, reading in ((first, second), (second, first)):
            page = writing.get("/v1/inbox", headers=user_headers).json()
            burst, seen = page["items"][0]["burst"], page["seen"]
            for mark, unread in (("unread", True), ("read", False), ("unread", True)):
                body = {"bursts": [burst], "mark": mark}
                assert writing.put("/v1/inbox/marks", json=body, headers=user_headers).status_code == 204
                assert _unread(reading, user_headers, burst) is unread
                assert _unread(writing, user_headers, burst) is unread
            assert writing.put("/v1/inbox/seen", json={"token": seen}, headers=user_headers).status_code == 204
            assert _count(reading, user_headers) == _count(writing, user_headers)
            volume = "first" if reading is second else "all"
            assert writing.patch("/v1/preferences", json={"volume": volume}, headers=user_headers).status_code == 200
            assert reading.get("/v1/preferences", headers=user_headers).json()["volume"] == volume


def _unread(client: httpx.Client, user_headers: Mapping[str, str], burst: str) -> bool:
    items = client.get("/v1/inbox", headers=user_headers).json()["items"]
    [burst_item] = [item for item in items if item["burst"] == burst]
    assert _count(client, user_headers) == sum(item["unread"] for item in items)
    return bool(burst_item["unread"])


def _count(client: httpx.Client, user_headers: Mapping[str, str]) -> int:
    return int(client.get("/v1/inbox/unread", headers=user_headers).json()["count"])


@pytest.mark.timeout(120)
def test_event_accepted_by_one_process_is_a_duplicate_for_the_other(running: Running) -> None:
    key = {"Authorization": f"Bearer {running.ready.service_key}", "Content-Type": "application/cloudevents+json"}
    with connections(running) as by_name:
        for number, (first, second) in enumerate((PROCESSES, PROCESSES[::-1])):
            body = _event(f"twice-{number}")
            assert by_name[first].post("/v1/events", content=body, headers=key).json()["status"] == "accepted"
            assert by_name[second].post("/v1/events", content=body, headers=key).json()["status"] == "duplicate"


@pytest.mark.timeout(120)
def test_mark_through_one_process_reaches_a_stream_of_the_other(
    running: Running, user_headers: Mapping[str, str]
) -> None:
    with calling(running.ready, "") as caller:
        assert caller.post_is_accepted("streamed")
        until(lambda: caller.is_finished("streamed"), STARTS_WITHIN)
    with connections(running) as by_name:
        burst = by_name["api"].get("/v1/inbox", headers=user_headers).json()["items"][0]["burst"]
        with by_name["api-2"].stream("GET", "/v1/inbox/stream", headers=user_headers) as stream:
            lines = stream.iter_lines()
            _wait_for_line(lines, "event: ")
            body = {"bursts": [burst], "mark": "read"}
            assert by_name["api"].put("/v1/inbox/marks", json=body, headers=user_headers).status_code == 204
            _wait_for_line(lines, "event: marked")


def _wait_for_line(lines: Iterator[str], beginning: str) -> None:
    assert next((line for line in lines if line.startswith(beginning)), None)


@dataclass
class Load:
    """Requests one after another, each over its own connection. An interrupted request is tried again once."""

    url: str
    ending: Signal = field(default_factory=Signal)
    answered: int = 0
    cut_off: int = 0
    failed: list[str] = field(default_factory=list)

    def run(self) -> None:
        while not self.ending.is_set():
            if not self._ask():
                self.cut_off += 1
                if not self._ask():
                    self.failed.append(f"after {self.answered}")

    def _ask(self) -> bool:
        try:
            status = httpx.get(f"{self.url}/readyz", timeout=ANSWERS_WITHIN).status_code
        except httpx.TransportError:
            return False
        self.answered += status == 200
        return status == 200


@contextmanager
def load(url: str, count: int = 4) -> Iterator[list[Load]]:
    loads = [Load(url) for _ in range(count)]
    threads = [Thread(target=one_load.run) for one_load in loads]
    for thread in threads:
        thread.start()
    try:
        yield loads
    finally:
        for one_load in loads:
            one_load.ending.set()
        for thread in threads:
            thread.join()


@pytest.mark.timeout(150)
@pytest.mark.parametrize("killed", PROCESSES)
def test_killed_process_is_replaced_while_the_other_answers(running: Running, killed: str) -> None:
    first = running.ready
    [survivor] = {*PROCESSES} - {killed}
    with load(first.url) as loads:
        until(lambda: all(one_load.answered >= 5 for one_load in loads), STARTS_WITHIN)
        os.kill(first.pids[killed], signal.SIGKILL)
        answered = [one_load.answered for one_load in loads]
        until(
            lambda: all(one_load.answered >= before + 5 for one_load, before in zip(loads, answered, strict=True)), 10.0
        )
        until(lambda: running.ready.pids[killed] != first.pids[killed], STARTS_WITHIN)
        until(lambda: _has_started(running, killed), STARTS_WITHIN)
    assert [one_load.failed for one_load in loads] == [[]] * len(loads)
    assert running.ready.pids[survivor] == first.pids[survivor]
    assert running.ready.url == first.url
    with connections(running):  # checks that both processes have connections
        pass


@pytest.mark.timeout(120)
def test_sigterm_drains_one_process_and_leaves_the_other(running: Running, user_headers: Mapping[str, str]) -> None:
    first = running.ready
    with connections(running) as by_name, ExitStack() as stack:
        streams = {}
        for name, client in by_name.items():
            response = stack.enter_context(client.stream("GET", "/v1/inbox/stream", headers=user_headers))
            streams[name] = response.iter_bytes()
            assert next(streams[name]).startswith(b"retry: ")
        os.kill(first.pids["api-2"], signal.SIGTERM)
        began = monotonic()
        list(streams["api-2"])  # ends without an error, because the response is complete
        assert monotonic() - began < GONE_WITHIN
        until(lambda: running.ready.pids["api-2"] != first.pids["api-2"], STARTS_WITHIN)
        with calling(first, "") as caller:
            assert caller.post_is_accepted("after-the-drain")
        assert next(streams["api"]), "the other process's stream must stay open"
    assert running.ready.pids["api"] == first.pids["api"]


@pytest.mark.timeout(120)
def test_sigterm_of_up_ends_both_processes(running: Running) -> None:
    pids = running.ready.pids
    running.process.terminate()
    assert running.process.wait(GONE_WITHIN) == 0
    assert [name for name, pid in pids.items() if is_running(pid)] == []


def _has_started(running: Running, name: str) -> bool:
    return pid_files_of(running.data).is_written(name, running.ready.pids[name])


def _event(id: str) -> bytes:
    [event] = mention_batch(["nova"], now=datetime.now(UTC), new_id=lambda: id, author="ada")
    body: Any = event
    return json.dumps(body).encode()
