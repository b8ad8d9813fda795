"""Readers of Kafka that come back, and partitions that come new: what other backends of the log don't know."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.contracts.logs import InKafka, in_kafka
from tests.contracts.member import member
from tests.contracts.reading import KEYS, LEASE, STREAM, append, keys, poll


@pytest.fixture
def logs(kafka: str) -> Iterator[InKafka]:
    with in_kafka(kafka) as found:
        yield found


def test_who_was_killed_and_comes_back_as_the_same_instance_has_its_partitions_well_before_the_lease_ends(
    logs: InKafka,
) -> None:
    named = replace(logs.access, instance="host-1")
    append(logs, *KEYS)
    before, after = (member(named, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.members += [before, after]
    assert keys(poll(logs, before)) == sorted(KEYS)
    assert after.lag() == 0  # it runs, and has not joined
    before.end()
    killed = time.monotonic()
    assert keys(poll(logs, after)) == sorted(KEYS)
    assert time.monotonic() - killed < LEASE.total_seconds() / 2
