"""The Redis stream of published bursts returns bursts since a position, or a gap."""

import asyncio
from datetime import timedelta

import pytest

from notifier.adapters.redis import persistent_and_shared_connections
from notifier.adapters.redis.connect import connect_async
from notifier.adapters.redis.viewer_versions_and_burst_stream import (
    BURST_STREAM_KEY,
    MAX_STREAM_ENTRIES,
    RedisViewerVersionReader,
)
from notifier.domain.errors import CacheUnavailable
from notifier.ports.inbox_cache_freshness import BurstStreamPosition
from notifier.ports.live_bus import MissedUpdates
from tests.contracts.pull_index_backends import burst
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.contracts.viewer_version_backends import Versions, reader_of, versions

__all__ = ["valkey", "valkey_server", "versions"]

PATIENT_GAP = 60.0
"""Seconds. A busy machine may take longer than the product allows."""


def test_first_lookup_returns_no_earlier_bursts(versions: Versions) -> None:
    versions.bus.publish([burst(1)])
    result = versions.look_up(())
    assert result.published in ([], ())
    assert result.position is not None


def test_lookup_returns_bursts_published_since_its_position(versions: Versions) -> None:
    position = _position(versions)
    versions.bus.publish([burst(1), burst(2)])
    result = versions.look_up((), position)
    assert result.published == [burst(1), burst(2)]
    assert result.position is not None
    assert versions.published(result.position) == []


def test_same_position_returns_the_same_bursts_again(versions: Versions) -> None:
    position = _position(versions)
    versions.bus.publish([burst(1)])
    assert versions.published(position) == versions.published(position) == [burst(1)]


def test_missed_updates_are_a_gap(versions: Versions) -> None:
    position = _position(versions)
    versions.bus.publish([MissedUpdates(), burst(1)])
    assert versions.published(position) is None


def test_wipe_is_a_gap(versions: Versions) -> None:
    position = _position(versions)
    versions.wipe()
    versions.bus.publish([burst(1)])
    assert versions.published(position) is None


def test_reader_far_behind_gets_a_gap(valkey: Valkey) -> None:
    async def far_behind() -> object:
        async with reader_of(valkey) as reader:
            before = await reader.look_up((), None)
            pipe = valkey.client.pipeline(transaction=False)
            for _ in range(MAX_STREAM_ENTRIES + 1):
                pipe.xadd(BURST_STREAM_KEY, {"a": ""})
            pipe.execute()
            return (await reader.look_up((), before.position)).published

    assert asyncio.run(far_behind()) is None


@pytest.mark.parametrize("fields", [{"b": b"\xff\x00"}, {"x": b""}, {"b": b""}])
def test_unreadable_entry_is_a_gap(valkey: Valkey, fields: dict[str, bytes]) -> None:
    async def read() -> object:
        async with reader_of(valkey) as reader:
            before = await reader.look_up((), None)
            valkey.client.xadd(BURST_STREAM_KEY, fields)  # type: ignore[arg-type] # redis-py's type of a mapping is invariant
            return (await reader.look_up((), before.position)).published

    assert asyncio.run(read()) is None


def test_value_of_wrong_type_is_removed(valkey: Valkey) -> None:
    valkey.client.set(BURST_STREAM_KEY, "nonsense")

    async def look_twice() -> object:
        async with reader_of(valkey) as reader:
            with pytest.raises(CacheUnavailable):
                await reader.look_up((), None)
            return (await reader.look_up((), None)).position

    assert asyncio.run(look_twice()) is not None


@pytest.mark.parametrize(
    ("changes_role", "max_gap", "is_noticed"),
    [(False, PATIENT_GAP, False), (True, PATIENT_GAP, True), (False, 0.0, True)],
)
def test_new_connection_that_may_lead_to_other_data_is_noticed(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch, *, changes_role: bool, max_gap: float, is_noticed: bool
) -> None:
    """A server that was a replica for a moment, or one that was not reached for long, may have other data."""
    monkeypatch.setattr(persistent_and_shared_connections, "MAX_GAP_SECONDS", max_gap)

    async def look_after_cut() -> tuple[int, int]:
        async with reader_of(valkey) as reader:
            before = await reader.look_up((), None)
            valkey.client.client_kill_filter(_type="normal", skipme=True)
            with pytest.raises(CacheUnavailable):
                await reader.look_up((), None)
            await asyncio.sleep(1.1)  # the circuit breaker's pause
            if changes_role:
                valkey.client.replicaof("127.0.0.1", 1)
                valkey.client.replicaof("NO", "ONE")
            return before.server_state, (await reader.look_up((), None)).server_state

    before, after = asyncio.run(look_after_cut())
    assert (before != after) is is_noticed


def test_hung_server_is_abandoned_within_deadline(valkey: Valkey) -> None:
    async def look_at_hung_server() -> None:
        async with connect_async(valkey.patient_url) as client:
            reader = RedisViewerVersionReader(client, timedelta(seconds=1))
            try:
                await reader.look_up((), None)
                valkey.client.execute_command("CLIENT", "PAUSE", 3_000)  # type: ignore[no-untyped-call] # redis-py's own
                with pytest.raises(CacheUnavailable):
                    await reader.look_up((), None)
            finally:
                await reader.close()

    asyncio.run(look_at_hung_server())


def _position(versions: Versions) -> BurstStreamPosition:
    position = versions.look_up(()).position
    assert position is not None
    return position
