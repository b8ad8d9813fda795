"""The throttles: durable, ended once, and audited in the same step."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.inbox import entries
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.throttle import Throttle
from tests.contracts.backends import Backend
from tests.support.fakes.clock import START

HOUR = timedelta(hours=1)
PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", who="ada", starts_at=START, ends_at=START + HOUR)
SLOW = replace(PAUSE, id="t2", rate=5000.5, starts_at=START + HOUR, ends_at=START + 2 * HOUR)


def test_a_throttle_comes_back_as_it_was_put(backend: Backend) -> None:
    backend.throttles.put(SLOW)
    backend.throttles.put(PAUSE)
    assert list(backend.throttles.since(START)) == [PAUSE, SLOW]


def test_those_that_ended_by_the_moment_are_left_out(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    backend.throttles.put(SLOW)
    assert list(backend.throttles.since(PAUSE.ends_at)) == [SLOW]


def test_putting_one_again_replaces_it(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    longer = replace(PAUSE, ends_at=START + 3 * HOUR)
    backend.throttles.put(longer)
    assert list(backend.throttles.since(START)) == [longer]


def test_lifting_ends_it_now_and_only_once(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    now = START + HOUR / 2
    lifted = replace(PAUSE, ends_at=now)
    assert backend.throttles.lift("t1", "bob", now) == lifted
    assert backend.throttles.lift("t1", "bob", now) is None
    assert list(backend.throttles.since(START)) == [lifted]


def test_what_never_was_can_not_be_lifted(backend: Backend) -> None:
    assert backend.throttles.lift("t9", "bob", START) is None


def test_every_change_is_in_the_audit_with_who_did_it(sqlite: Backend, files: Files) -> None:
    sqlite.throttles.put(PAUSE)
    sqlite.throttles.lift("t1", "bob", START + HOUR / 2)
    sqlite.throttles.lift("t1", "eve", START + HOUR / 2)
    found = [(json.loads(body), intact) for body, intact in entries(files.core)]
    told = [(entry["who"], entry["what"], entry["throttle"]["id"], intact) for entry, intact in found]
    assert told == [("ada", "throttle.put", "t1", True), ("bob", "throttle.lift", "t1", True)]


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = replace(body, 'ada', 'eve') WHERE number = 1",
        "DELETE FROM audit WHERE number = 1",
        "UPDATE audit SET number = number + 10 WHERE number = 1",
    ],
)
def test_an_audit_that_was_tampered_with_shows(sqlite: Backend, files: Files, tamper: str) -> None:
    for id in ("t1", "t2", "t3"):
        sqlite.throttles.put(replace(PAUSE, id=id))
    with files.core.write() as c:
        c.execute(tamper)
    assert not all(intact for _, intact in entries(files.core))
