"""Live streams of a real `notifier up`: a row within a second of the 202; and what callers notice of who dies."""

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
from notifier.devkit.check.traffic import ONE, Tweet
from notifier.devkit.fixture.world import user
from notifier.domain.ids import UserId
from tests.cli.caller import Caller, calling
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, Running, Shared, lives, until

VISIBLE_WITHIN = 1.0
"""Seconds from the 202: the promise."""
TRIES = 3
"""The best of them is judged: other tests share this machine."""
BOUNDED = 4.0
"""Seconds for a call that meets a frozen cache: its two or three questions to it wait half a second each, and the
rest is for a busy machine. Without a bound a call to a frozen server would never end."""

CALLS = 5


@dataclass(slots=True)
class Heard:
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
def service(small_world: Path) -> Iterator[Shared]:
    shared = Shared(data=small_world)
    yield shared
    shared.end()


@pytest.fixture
def running(service: Shared) -> Running:
    return service.running()


@contextmanager
def stream(url: str, token: str) -> Iterator[Heard]:
    heard = Heard()
    with httpx.stream(
        "GET", f"{url}/v1/inbox/stream", headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as response:
        assert response.status_code == 200
        reading = threading.Thread(target=_read, args=(heard, response), daemon=True)
        reading.start()
        until(lambda: heard.names() == ["count"], STARTS_WITHIN)
        yield heard


def _read(heard: Heard, response: httpx.Response) -> None:
    try:
        heard.take(response.iter_lines())
    except (httpx.HTTPError, httpx.StreamError):
        return  # the test is through with it


@pytest.mark.timeout(400)
def test_a_mention_is_a_row_on_the_stream_within_a_second_of_its_202(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    token = notifier("token", "nova", "--data", data).output.strip()
    with stream(url, token) as heard:
        waits = [_visible(heard, running, number, "nova") for number in range(TRIES)]
    assert min(waits) <= VISIBLE_WITHIN, waits


@pytest.mark.timeout(400)
def test_a_redis_that_dies_ends_no_stream_and_its_return_is_told(running: Running, notifier: Notifier) -> None:
    url, data = running.ready.url, str(running.data)
    token = notifier("token", "orion", "--data", data).output.strip()
    with stream(url, token) as heard:
        os.kill(running.ready.pids["valkey"], signal.SIGKILL)
        # A reset is written at once, and the badge behind it once it is counted anew: they may come apart.
        until(lambda: len(heard.names()) >= 3, STARTS_WITHIN)
        assert heard.names()[:3] == ["count", "reset", "count"]
        _visible(heard, running, TRIES, "orion")


@pytest.mark.timeout(400)
def test_events_are_taken_and_tabs_answer_while_valkey_is_frozen_or_dead(running: Running, notifier: Notifier) -> None:
    person = notifier("token", "u1", "--data", str(running.data)).stdout.strip()
    with calling(running.ready, person) as caller:
        assert caller.accepted("before")
        until(lambda: caller.settled("before"), STARTS_WITHIN)
        shown = bursts(caller.tab())

        valkey = running.ready.pids["valkey"]
        os.kill(valkey, signal.SIGSTOP)
        try:
            goes_on(caller, "frozen", shown)
        finally:
            os.kill(valkey, signal.SIGCONT)
        recovers(caller, "frozen")

        os.kill(valkey, signal.SIGKILL)
        goes_on(caller, "killed", shown)
        until(lambda: running.ready.pids["valkey"] != valkey, STARTS_WITHIN)
        recovers(caller, "killed")


@pytest.mark.timeout(400)
def test_who_kills_the_supervisor_kills_everybody(running: Running, notifier: Notifier) -> None:
    last = running.ready.pids
    os.kill(last["up"], signal.SIGKILL)
    running.process.wait(GONE_WITHIN)
    until(lambda: not any(lives(pid) for pid in last.values()), GONE_WITHIN)
    assert notifier("mention", "--author", "ada", "--of", "nova", "--data", str(running.data)).exit_code == 3


def _visible(heard: Heard, running: Running, number: int, of: str) -> float:
    """Seconds from the 202 until a row or its growth is told."""
    before = len(heard.events)
    tweet = Tweet(id=f"live-{number}", author=user(number), mentioned=(UserId(of),), protected=False)
    bearer = {"Authorization": f"Bearer {running.ready.service_key}", "Content-Type": ONE}
    answer = httpx.post(f"{running.ready.url}/v1/events", content=json.dumps(tweet.event()), headers=bearer)
    accepted = monotonic()
    assert answer.status_code == 202, answer.text
    until(lambda: any(name in ("row", "group") for name in heard.names()[before:]), STARTS_WITHIN)
    return next(at for name, _, at in heard.events[before:] if name in ("row", "group")) - accepted


def goes_on(caller: Caller, how: str, shown: set[str]) -> None:
    for n in range(CALLS):
        began = monotonic()
        assert caller.accepted(f"{how}-{n}")
        assert monotonic() - began < BOUNDED
        began = monotonic()
        assert bursts(caller.tab()) >= shown
        assert monotonic() - began < BOUNDED


def recovers(caller: Caller, how: str) -> None:
    """By itself: what came meanwhile is delivered, and nobody waits for the cache any more."""
    until(lambda: caller.cache() == "ok", STARTS_WITHIN)
    until(lambda: all(caller.settled(f"{how}-{n}") for n in range(CALLS)), STARTS_WITHIN)
    until(lambda: fast(lambda: caller.accepted(f"after-{how}-{monotonic()}")), STARTS_WITHIN)
    until(lambda: fast(lambda: caller.tab().is_success), STARTS_WITHIN)


def fast(call: Callable[[], bool]) -> bool:
    """Faster than any call that still waits for a cache in vain."""
    began = monotonic()
    assert call()
    return monotonic() - began < TIMEOUT / 2


def bursts(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200
    return {item["burst"] for item in answer.json()["items"]}
