"""Redis behind other addresses: a cluster with a node that hangs, sentinels that choose a new primary, and refusals."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep

import pytest

from notifier.adapters.redis import RedisActivity, RedisBuckets, RedisPressure, RedisRecent
from notifier.adapters.redis.address import several
from notifier.adapters.redis.cluster import KEYLESS, slot_of
from notifier.adapters.redis.connect import TIMEOUT, connect, connect_async, look
from notifier.adapters.redis.keys import unwrap
from notifier.devkit.engines.engine import free_port
from notifier.devkit.engines.valkey import server
from notifier.domain.bursts.mention import EventId
from notifier.domain.errors import BadSetting, CacheUnavailable
from notifier.domain.ids import Member
from notifier.domain.token_bucket import BucketLimit
from tests.contracts.valkey_fixture import PATIENT
from tests.contracts.valkeys_fixture import Valkeys, cluster_in, running
from tests.support.valkey_cluster import replica, sentinel

HOUR = timedelta(hours=1)
EVENTS = {EventId("tweets", str(number)): "digest" for number in range(50)}


def until(true: Callable[[], object], within: float = 20) -> None:
    """What raises CacheUnavailable isn't true yet."""
    deadline = monotonic() + within
    while True:
        try:
            if true():
                return
        except CacheUnavailable:
            pass
        assert monotonic() < deadline
        sleep(0.05)


def told(pressure: RedisPressure) -> bool:
    pressure.raise_to(0.5, HOUR)
    return pressure.level() == 0.5


def test_every_command_has_one_slot_and_words_have_one_for_all() -> None:
    assert slot_of("get", ["pull:{7}"]) == slot_of("evalsha", ["digest", 1, "pull:{7}", "x"]) == slot_of("get", ["7"])
    assert slot_of("publish", ["live", b""]) == slot_of("publish", ["live.missed", b""]) == KEYLESS["publish"]


def test_keys_are_spread_over_all_nodes_and_found_again(valkeys: Valkeys) -> None:
    recent = RedisRecent(valkeys.client)
    recent.remember(EVENTS)
    assert recent.digests(list(EVENTS)) == EVENTS
    assert all(isinstance(size, int) and size > 0 for size in valkeys.everywhere("DBSIZE"))


def test_a_slot_that_moved_is_found_after_one_call_without_an_answer(valkeys: Valkeys) -> None:
    pressure = RedisPressure(valkeys.client)
    pressure.raise_to(0.5, HOUR)
    slot = slot_of("get", ["pressure"])
    before, after = _holders(valkeys, slot)
    ids = valkeys.everywhere("CLUSTER MYID")
    valkeys.everywhere("FLUSHALL")
    try:
        valkeys.everywhere("CLUSTER SETSLOT", slot, "NODE", _said(ids[after]))
        with pytest.raises(CacheUnavailable, match="Moved"):
            pressure.level()
        assert told(pressure)
    finally:
        valkeys.everywhere("FLUSHALL")
        valkeys.everywhere("CLUSTER SETSLOT", slot, "NODE", _said(ids[before]))
    until(lambda: told(pressure))


def _holders(valkeys: Valkeys, slot: int) -> tuple[int, int]:
    """The number of the node that has it, and of another."""
    port = valkeys.client.mapped().holder(slot)[1]  # type: ignore[attr-defined] # it is a ClusterClient
    [holder] = [number for number, one in enumerate(valkeys.engines) if one.port == port]
    return holder, (holder + 1) % len(valkeys.engines)


def _said(answer: object) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Valkeys]:
    with cluster_in(tmp_path) as found:
        yield found


def test_a_look_at_a_cluster_finds_what_its_nodes_are(valkeys: Valkeys) -> None:
    found = look(valkeys.url)
    assert (found.name, found.version.partition(".")[0].isdigit(), abs(found.ahead) < 1) == ("valkey", True, True)


@pytest.mark.timeout(90)
def test_a_hung_node_costs_each_client_one_time_out_and_is_asked_again_when_it_wakes(own: Valkeys) -> None:
    buckets = RedisBuckets(own.client)

    def take_all() -> None:
        for name in range(30):
            buckets.take(str(name), BucketLimit(capacity=9, refill=HOUR))

    async def run() -> None:
        async with connect_async(own.url) as client:
            activity = RedisActivity(client)
            everybody = [Member(number << 17) for number in range(30)]
            await activity.touch(everybody, 1)
            own.engines[0].freeze()
            began = monotonic()
            for _ in range(5):
                with pytest.raises(CacheUnavailable):
                    take_all()
                with pytest.raises(CacheUnavailable):
                    await activity.touch(everybody, 1)
            waited = monotonic() - began
            own.engines[0].wake()
            # One for each client; a second one each where the rest was over meanwhile.
            assert waited < 5 * TIMEOUT
            deadline = monotonic() + 20
            while True:
                try:
                    take_all()
                    return await activity.touch(everybody, 1)
                except CacheUnavailable:
                    assert monotonic() < deadline
                    await asyncio.sleep(0.05)

    take_all()
    asyncio.run(run())


@pytest.mark.timeout(90)
def test_sentinels_lead_to_the_replica_once_the_primary_is_dead(tmp_path: Path) -> None:
    password = secrets.token_hex(24)
    primary = server(tmp_path / "primary", port=free_port(), password=password, also=f"masterauth {password}\n")
    other = replica(tmp_path / "replica", of=primary, password=password)
    with running([primary, other]):
        watch = sentinel(tmp_path / "sentinel", of=primary, service="cache", password=password)
        with running([watch]):
            # The first sentinel is down: the next is asked.
            url = f"redis+sentinel://:{password}@127.0.0.1:1,{watch.address}/cache/0{PATIENT}"
            with connect(url) as client:
                pressure = RedisPressure(client)
                until(lambda: told(pressure))
                _until_known(watch.address, password)
                primary.kill()
                with pytest.raises(CacheUnavailable):
                    pressure.raise_to(0.5, HOUR)
                until(lambda: told(pressure), within=40)
            assert unwrap("pressure", asyncio.run(_read(url))) == b"0.5"


async def _read(url: str) -> bytes:
    async with connect_async(url) as client:
        held: bytes = await client.get("pressure")  # type: ignore[assignment]  # nothing decodes it
        return held


def _until_known(sentinel: str, password: str) -> None:
    """A sentinel asks a primary for its replicas every ten seconds, and every second while it is down."""
    with connect(f"redis://:{password}@{sentinel}") as asked:
        until(lambda: asked.execute_command("SENTINEL REPLICAS", "cache"), within=40)


def test_addresses_say_who_is_asked_and_how() -> None:
    found = several("rediss+sentinel://joe:s%2Fe@a:1,b/cache/2?ssl_ca_certs=ca.pem")
    assert found
    assert (found.kind, found.hosts, found.service) == ("sentinel", [("a", 1), ("b", 26379)], "cache")
    assert found.options == {"username": "joe", "password": "s/e", "db": 2, "ssl": True, "ssl_ca_certs": "ca.pem"}
    plain = several("redis+cluster://a,[::1]:7")
    assert plain
    assert (plain.hosts, plain.options) == ([("a", 6379), ("::1", 7)], {})
    assert several("redis://a:1/0") is None


@pytest.mark.parametrize("url", ["redis+sentinel://a:1", "redis+ring://a:1", "redis+cluster://a:b", "redis+cluster://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadSetting):
        connect(url)
    with pytest.raises(BadSetting):
        connect_async(url)
