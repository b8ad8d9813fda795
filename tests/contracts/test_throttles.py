"""Throttles are durable, lifted once, and audited in the same transaction."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import audit_entries
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

HOUR = timedelta(hours=1)
PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", operator="ada", starts_at=START, ends_at=START + HOUR)
SLOW = replace(PAUSE, id="t2", rate=5000.5, starts_at=START + HOUR, ends_at=START + 2 * HOUR)


def test_throttle_is_read_as_written(backend: Backend) -> None:
    backend.throttles.put(SLOW)
    backend.throttles.put(PAUSE)
    assert list(backend.throttles.ending_after(START)) == [PAUSE, SLOW]


def test_ended_throttles_are_left_out(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    backend.throttles.put(SLOW)
    assert list(backend.throttles.ending_after(PAUSE.ends_at)) == [SLOW]


def test_repeated_put_replaces_throttle(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    longer = replace(PAUSE, ends_at=START + 3 * HOUR)
    backend.throttles.put(longer)
    assert list(backend.throttles.ending_after(START)) == [longer]


def test_lift_ends_throttle_now_and_only_once(backend: Backend) -> None:
    backend.throttles.put(PAUSE)
    now = START + HOUR / 2
    lifted = replace(PAUSE, ends_at=now)
    assert backend.throttles.lift("t1", "bob", now) == lifted
    assert backend.throttles.lift("t1", "bob", now) is None
    assert list(backend.throttles.ending_after(START)) == [lifted]


def test_unknown_throttle_cannot_be_lifted(backend: Backend) -> None:
    assert backend.throttles.lift("t9", "bob", START) is None


def test_every_change_is_audited_with_its_operator(sqlite: Backend, files: Files) -> None:
    sqlite.throttles.put(PAUSE)
    sqlite.throttles.lift("t1", "bob", START + HOUR / 2)
    sqlite.throttles.lift("t1", "eve", START + HOUR / 2)
    audit = [(json.loads(body), intact) for body, intact in audit_entries(files.core)]
    changes = [(entry["operator"], entry["action"], entry["throttle"]["id"], intact) for entry, intact in audit]
    assert changes == [("ada", "throttle.put", "t1", True), ("bob", "throttle.lift", "t1", True)]


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = replace(body, 'ada', 'eve') WHERE number = 1",
        "DELETE FROM audit WHERE number = 1",
        "UPDATE audit SET number = number + 10 WHERE number = 1",
    ],
)
def test_tampered_audit_is_detected(sqlite: Backend, files: Files, tamper: str) -> None:
    for id in ("t1", "t2", "t3"):
        sqlite.throttles.put(replace(PAUSE, id=id))
    with files.core.write() as c:
        c.execute(tamper)
    assert not all(intact for _, intact in audit_entries(files.core))
