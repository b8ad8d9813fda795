"""Redis clusters and sentinels: hung nodes, failover, and rejected addresses."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep

import pytest

from notifier.adapters.redis import RedisActivity, RedisBackpressure, RedisRecentEvents, RedisTokenBuckets
from notifier.adapters.redis.cluster import KEYLESS_COMMAND_SLOTS, slot_of
from notifier.adapters.redis.connect import TIMEOUT, connect, connect_async, server_status
from notifier.adapters.redis.keys_checksums_lua_scripts import unwrap
from notifier.adapters.redis.multi_host_address import multi_host_address
from notifier.devkit.engines.engine_process import free_port
from notifier.devkit.engines.valkey import server
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.errors import BadSetting, CacheUnavailable
from notifier.domain.ids import Member
from notifier.domain.token_bucket import BucketLimit
from tests.contracts.valkey_cluster_fixture import Valkeys, cluster_in, running
from tests.contracts.valkey_fixture import PATIENT
from tests.support.valkey_cluster_and_sentinel import replica, sentinel

HOUR = timedelta(hours=1)
EVENTS = {EventId("tweets", str(number)): "digest" for number in range(50)}


def wait_until(condition: Callable[[], object], within: float = 20) -> None:
    """Wait until the condition is true; CacheUnavailable counts as false."""
    deadline = monotonic() + within
    while True:
        try:
            if condition():
                return
        except CacheUnavailable:
            pass
        assert monotonic() < deadline
        sleep(0.05)


def write_works(pressure: RedisBackpressure) -> bool:
    pressure.set_level(0.5, HOUR)
    return pressure.level() == 0.5


def test_command_has_slot_of_its_keys_and_messages_share_one() -> None:
    assert (
        slot_of("get", ["pull-index:{7}"])
        == slot_of("evalsha", ["digest", 1, "pull-index:{7}", "x"])
        == slot_of("get", ["7"])
    )
    assert (
        slot_of("publish", ["live.bursts", b""])
        == slot_of("publish", ["live.missed-updates", b""])
        == KEYLESS_COMMAND_SLOTS["publish"]
    )


def test_keys_are_spread_over_all_nodes(valkeys: Valkeys) -> None:
    recent = RedisRecentEvents(valkeys.client)
    recent.remember(EVENTS)
    assert recent.content_hashes(list(EVENTS)) == EVENTS
    assert all(isinstance(size, int) and size > 0 for size in valkeys.everywhere("DBSIZE"))


def test_moved_slot_is_found_after_one_failed_call(valkeys: Valkeys) -> None:
    pressure = RedisBackpressure(valkeys.client)
    pressure.set_level(0.5, HOUR)
    slot = slot_of("get", ["backpressure"])
    before, after = _holder_and_other(valkeys, slot)
    valkeys.everywhere("FLUSHALL")
    try:
        _assign_slot(valkeys, slot, after)
        with pytest.raises(CacheUnavailable, match="Moved"):
            pressure.level()
        assert write_works(pressure)
    finally:
        valkeys.everywhere("FLUSHALL")
        _assign_slot(valkeys, slot, before)
    wait_until(lambda: write_works(pressure))


def _assign_slot(valkeys: Valkeys, slot: int, holder: int) -> None:
    """Tell all nodes who holds the slot. With the highest epoch its claim wins over a former holder's heartbeat."""
    client = valkeys.clients[holder]
    client.execute_command("CLUSTER BUMPEPOCH")  # type: ignore[no-untyped-call] # redis-py's own
    node_id = _decoded(client.execute_command("CLUSTER MYID"))  # type: ignore[no-untyped-call] # as above
    valkeys.everywhere("CLUSTER SETSLOT", slot, "NODE", node_id)


def _holder_and_other(valkeys: Valkeys, slot: int) -> tuple[int, int]:
    """Return the index of the node that holds the slot, and of another node."""
    port = valkeys.client.slot_map().holder(slot)[1]  # type: ignore[attr-defined] # it is a ClusterClient
    [holder] = [number for number, engine in enumerate(valkeys.engines) if engine.port == port]
    return holder, (holder + 1) % len(valkeys.engines)


def _decoded(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Valkeys]:
    with cluster_in(tmp_path) as cluster:
        yield cluster


def test_server_status_of_a_cluster_has_its_version_and_clock(valkeys: Valkeys) -> None:
    server_info = server_status(valkeys.url)
    assert (server_info.name, server_info.version.partition(".")[0].isdigit(), abs(server_info.clock_lead) < 1) == (
        "valkey",
        True,
        True,
    )


@pytest.mark.timeout(90)
def test_hung_node_costs_each_client_one_timeout_until_it_wakes(own_cluster: Valkeys) -> None:
    buckets = RedisTokenBuckets(own_cluster.client)

    def take_all() -> None:
        for name in range(30):
            buckets.take(str(name), BucketLimit(capacity=9, refill=HOUR))

    async def run() -> None:
        async with connect_async(own_cluster.url) as client:
            activity = RedisActivity(client)
            all_members = [Member(number << 17) for number in range(30)]
            await activity.touch(all_members, 1)
            own_cluster.engines[0].freeze()
            started = monotonic()
            for _ in range(5):
                with pytest.raises(CacheUnavailable):
                    take_all()
                with pytest.raises(CacheUnavailable):
                    await activity.touch(all_members, 1)
            waited = monotonic() - started
            own_cluster.engines[0].resume()
            # One timeout for each client; a second one if the pause ended in the meantime.
            assert waited < 5 * TIMEOUT
            deadline = monotonic() + 20
            while True:
                try:
                    take_all()
                    return await activity.touch(all_members, 1)
                except CacheUnavailable:
                    assert monotonic() < deadline
                    await asyncio.sleep(0.05)

    take_all()
    asyncio.run(run())


@pytest.mark.timeout(90)
def test_sentinels_lead_to_replica_when_primary_is_dead(tmp_path: Path) -> None:
    password = secrets.token_hex(24)
    primary = server(
        tmp_path / "primary", port=free_port(), password=password, extra_settings=f"masterauth {password}\n"
    )
    replica_engine = replica(tmp_path / "replica", of=primary, password=password)
    with running([primary, replica_engine]):
        sentinel_engine = sentinel(tmp_path / "sentinel", of=primary, service="cache", password=password)
        with running([sentinel_engine]):
            # The first sentinel is down, so the client asks the next one.
            url = f"redis+sentinel://:{password}@127.0.0.1:1,{sentinel_engine.address}/cache/0{PATIENT}"
            with connect(url) as client:
                pressure = RedisBackpressure(client)
                wait_until(lambda: write_works(pressure))
                _wait_until_replica_is_known(sentinel_engine.address, password)
                primary.kill()
                with pytest.raises(CacheUnavailable):
                    pressure.set_level(0.5, HOUR)
                wait_until(lambda: write_works(pressure), within=40)
            assert unwrap("backpressure", asyncio.run(_read(url))) == b"0.5"


async def _read(url: str) -> bytes:
    async with connect_async(url) as client:
        assert await client.client_id() == await client.client_id(), "a connection of the pool is used again"
        value: bytes = await client.get("backpressure")  # type: ignore[assignment]  # nothing decodes it
        return value


def _wait_until_replica_is_known(sentinel: str, password: str) -> None:
    """Sentinels ask a primary for its replicas every ten seconds, and every second while it is down."""
    with connect(f"redis://:{password}@{sentinel}") as sentinel_client:
        wait_until(lambda: sentinel_client.execute_command("SENTINEL REPLICAS", "cache"), within=40)


def test_addresses_are_parsed() -> None:
    address = multi_host_address("rediss+sentinel://joe:s%2Fe@a:1,b/cache/2?ssl_ca_certs=ca.pem")
    assert address
    assert (address.kind, address.hosts, address.service) == ("sentinel", [("a", 1), ("b", 26379)], "cache")
    assert address.options == {"username": "joe", "password": "s/e", "db": 2, "ssl": True, "ssl_ca_certs": "ca.pem"}
    cluster_address = multi_host_address("redis+cluster://a,[::1]:7")
    assert cluster_address
    assert (cluster_address.hosts, cluster_address.options) == ([("a", 6379), ("::1", 7)], {})
    assert multi_host_address("redis://a:1/0") is None


@pytest.mark.parametrize("url", ["redis+sentinel://a:1", "redis+ring://a:1", "redis+cluster://a:b", "redis+cluster://"])
def test_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(BadSetting):
        connect(url)
    with pytest.raises(BadSetting):
        connect_async(url)
