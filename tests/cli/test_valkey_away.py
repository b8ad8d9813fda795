"""A Valkey that is frozen or killed costs speed for a while: events are taken, tabs answer, all comes back."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import httpx
import pytest

from notifier.adapters.redis.client import TIMEOUT
from tests.cli.caller import Caller, calling
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, Running, start, until

BOUNDED = 4.0
"""Seconds for a call that meets a frozen cache: its two or three questions to it wait half a second each, and the
rest is for a busy machine. Without a bound a call to a frozen server would never end."""

CALLS = 5


@pytest.fixture
def running(folder: Path, notifier: Notifier) -> Iterator[Running]:
    words = ("--followers", "1000", "--universe", "2000", "--celebrities", "1", "--json")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    found = start(folder, folder / "asked-for.json")
    yield found
    found.process.terminate()
    found.process.wait(GONE_WITHIN)


@pytest.mark.timeout(120)
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
