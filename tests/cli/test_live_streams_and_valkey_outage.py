"""`notifier up`: latency of live streams, and behavior while Valkey or the supervisor fails."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx
import pytest

from notifier.adapters.redis.connect import TIMEOUT
from notifier.devkit.check.mention_storm import EVENT_CONTENT_TYPE, Tweet
from notifier.devkit.engines.engine_process import suspend
from notifier.devkit.fixture.world import user
from notifier.domain.ids import UserId
from tests.cli.conftest import Notifier
from tests.cli.running_service import GONE_WITHIN, STARTS_WITHIN, Running, SharedService, is_running, until
from tests.cli.service_caller import Caller, calling

VISIBLE_WITHIN = 1.0
"""Seconds from the 202 until the row is visible: the documented limit."""
TRIES = 3
"""The fastest try is judged, because other tests share this machine."""
BOUNDED = 4.0
"""Seconds for a call while the cache is frozen.

Its two or three requests to the cache wait half a second each; the rest is for a busy machine. Without a bound, a call
to a frozen server would never end.
"""

CALLS = 5


@dataclass(slots=True)
class StreamEvents:
    events: list[tuple[str, object, float]] = field(default_factory=list)

    def take(self, lines: Iterator[str]) -> None:
        name = ""
        for line in lines:
            key, _, value = line.partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                self.events.append((name, json.loads(value), monotonic()))

    def names(self) -> list[str]:
        return [name for name, _, _ in self.events]


@pytest.fixture(scope="module")
def service(small_world: Path) -> Iterator[SharedService]:
    shared = SharedService(data=small_world)
    yield shared
    shared.end()


@pytest.fixture
def running(service: SharedService) -> Running:
    return service.running()


@contextmanager
def stream(url: str, token: str) -> Iterator[StreamEvents]:
    received = StreamEvents()
    with httpx.stream(
        "GET", f"{url}/v1/inbox/stream", headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as response:
        assert response.status_code == 200
        reader = threading.Thread(target=_read, args=(received, response), daemon=True)
        reader.start()
        until(lambda: received.names() == ["count"], STARTS_WITHIN)
        yield received


def _read(received: StreamEvents, response: httpx.Response) -> None:
    try:
        received.take(response.iter_lines())
    except (httpx.HTTPError, httpx.StreamError):
        return  # the test no longer needs the stream


@pytest.mark.timeout(400)
def test_mention_is_on_stream_within_one_second(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    token = notifier("token", "nova", "--data", data).output.strip()
    with stream(url, token) as received:
        latencies = [_seconds_until_visible(received, running, number, "nova") for number in range(TRIES)]
    assert min(latencies) <= VISIBLE_WITHIN, latencies


@pytest.mark.timeout(400)
def test_stream_survives_redis_and_reports_its_return(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    token = notifier("token", "orion", "--data", data).output.strip()
    with stream(url, token) as received:
        os.kill(running.ready.pids["valkey"], signal.SIGKILL)
        # A reset is written at once, and the badge after it when it has been recounted: they may arrive separately.
        until(lambda: len(received.names()) >= 3, STARTS_WITHIN)
        assert received.names()[:3] == ["count", "reset", "count"]
        _seconds_until_visible(received, running, TRIES, "orion")


@pytest.mark.timeout(400)
def test_events_and_inboxes_work_while_valkey_is_frozen_or_dead(running: Running, notifier: Notifier) -> None:
    token = notifier("token", "u1", "--data", str(running.data)).stdout.strip()
    with calling(running.ready, token) as caller:
        assert caller.post_is_accepted("before")
        until(lambda: caller.is_finished("before"), STARTS_WITHIN)
        before = bursts(caller.inbox())

        valkey = running.ready.pids["valkey"]
        suspend(valkey)
        try:
            check_bounded_calls(caller, "frozen", before)
        finally:
            os.kill(valkey, signal.SIGCONT)
        check_recovery(caller, "frozen")

        os.kill(valkey, signal.SIGKILL)
        check_bounded_calls(caller, "killed", before)
        until(lambda: running.ready.pids["valkey"] != valkey, STARTS_WITHIN)
        check_recovery(caller, "killed")


@pytest.mark.timeout(400)
def test_killed_supervisor_ends_every_role(running: Running, notifier: Notifier) -> None:
    pids = running.ready.pids
    os.kill(pids["up"], signal.SIGKILL)
    running.process.wait(GONE_WITHIN)
    until(lambda: not any(is_running(pid) for pid in pids.values()), GONE_WITHIN)
    assert notifier("mention", "--author", "ada", "--of", "nova", "--data", str(running.data)).exit_code == 3


def _seconds_until_visible(received: StreamEvents, running: Running, number: int, account: str) -> float:
    """Return the seconds from the 202 until the row or its growth is on the stream."""
    count_before = len(received.events)
    tweet = Tweet(id=f"live-{number}", author=user(number), mentioned=(UserId(account),), protected=False)
    bearer = {"Authorization": f"Bearer {running.ready.service_key}", "Content-Type": EVENT_CONTENT_TYPE}
    response = httpx.post(f"{running.ready.url}/v1/events", content=json.dumps(tweet.event()), headers=bearer)
    accepted = monotonic()
    assert response.status_code == 202, response.text
    until(lambda: any(name in ("row", "group") for name in received.names()[count_before:]), STARTS_WITHIN)
    return (
        next(arrived_at for name, _, arrived_at in received.events[count_before:] if name in ("row", "group"))
        - accepted
    )


def check_bounded_calls(caller: Caller, prefix: str, expected: set[str]) -> None:
    for n in range(CALLS):
        began = monotonic()
        assert caller.post_is_accepted(f"{prefix}-{n}")
        assert monotonic() - began < BOUNDED
        began = monotonic()
        assert bursts(caller.inbox()) >= expected
        assert monotonic() - began < BOUNDED


def check_recovery(caller: Caller, prefix: str) -> None:
    """Check that events of the outage are delivered, and that calls no longer wait for the cache."""
    until(lambda: caller.cache() == "ok", STARTS_WITHIN)
    until(lambda: all(caller.is_finished(f"{prefix}-{n}") for n in range(CALLS)), STARTS_WITHIN)
    until(lambda: is_fast(lambda: caller.post_is_accepted(f"after-{prefix}-{monotonic()}")), STARTS_WITHIN)
    until(lambda: is_fast(lambda: caller.inbox().is_success), STARTS_WITHIN)


def is_fast(call: Callable[[], bool]) -> bool:
    """Return whether the call is faster than any call that still waits for a cache."""
    began = monotonic()
    assert call()
    return monotonic() - began < TIMEOUT / 2


def bursts(response: httpx.Response) -> set[str]:
    assert response.status_code == 200
    return {item["burst"] for item in response.json()["items"]}
