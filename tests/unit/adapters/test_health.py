"""What a look at an engine means: each odd answer is found, with what to do, and a frozen engine holds up none."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from time import monotonic

import pytest

from notifier.adapters import cassandra, kafka, redis
from notifier.adapters.cassandra import MigrationEntry, Node, Nodes
from notifier.adapters.cassandra.schema.health import ahead
from notifier.adapters.cassandra.schema.migrate import FOLDER, CassandraMigration, Phase
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.profiles.health import inspected, of_cassandra, of_kafka, of_redis
from notifier.profiles.profile import Inspection

ACCESS = cassandra.CassandraAccess(hosts=["10.0.0.1"], keyspace="ours", datacenter="here")
SETTINGS = {
    "batch_size_fail_threshold": "50KiB",
    "unlogged_batch_across_partitions_warn_threshold": "10",
    "commitlog_sync": "group",
}
NODE = Node(address="10.0.0.1", datacenter="here", version="5.0.8", settings=SETTINGS)
AWAY = Node(address="10.0.0.9", datacenter="here", settings={})
THREE = {"class": "NetworkTopologyStrategy", "here": "3"}
ENTRIES = [
    MigrationEntry(phase=phase, number=one.number, name=one.name, checksum=one.checksum, applied=True)
    for phase in Phase
    for one in (CassandraMigration.read(phase, path) for path in sorted((FOLDER / phase).glob("*.cql")))
]
GOOD = Nodes(each=[NODE, NODE, NODE], replication=THREE, entries=ENTRIES)
BROKERS = kafka.ClusterStatus(
    version=(4, 3), brokers=3, pending=[], topics={"mentions": kafka.TopicStatus(replicas=3, insync=3, min_insync=2)}
)
SERVER = redis.RedisServer(name="valkey", version="9.1.2", policy="noeviction", ahead=0.0)


def wrong(found: Sequence[Inspection]) -> dict[str, str]:
    """What isn't as it must be, which always has a remedy; what is has none."""
    assert all((each.level == "ok") == (each.remedy == "") for each in found)
    return {each.name: each.level for each in found if each.level != "ok"}


def of(nodes: Nodes) -> dict[str, str]:
    return wrong(list(of_cassandra(nodes, ACCESS)))


def noded(**changed: object) -> Nodes:
    return replace(GOOD, each=[replace(NODE, **changed), NODE, NODE])  # type: ignore[arg-type] # by the tests' words


def copied(copies: dict[str, str], *nodes: Node) -> Nodes:
    return replace(GOOD, replication=copies, each=nodes)


def test_three_nodes_as_they_must_be_are_right() -> None:
    assert of(GOOD) == {}


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        (noded(version="4.1.9"), {"cassandra version": "fail"}),
        (noded(version="5.0-rc1"), {}),
        (noded(version="5.10.0"), {}),
        (noded(version="6.0.0"), {"cassandra version": "warn"}),
        (noded(ahead=0.4), {}),
        (noded(ahead=-0.5), {"cassandra clock": "warn"}),
        (noded(ahead=2.0), {"cassandra clock": "fail"}),
        (noded(settings={**SETTINGS, "batch_size_fail_threshold": "49KiB"}), {"cassandra batches": "fail"}),
        (noded(settings={**SETTINGS, "batch_size_fail_threshold": "51200B"}), {}),
        (noded(settings={**SETTINGS, "batch_size_fail_threshold": "1MiB"}), {}),
        (
            noded(settings={**SETTINGS, "unlogged_batch_across_partitions_warn_threshold": "5"}),
            {"cassandra batches": "warn"},
        ),
        (noded(settings={**SETTINGS, "commitlog_sync": "periodic"}), {}),
        (noded(settings={}), {}),
        (replace(GOOD, each=[NODE, NODE, AWAY]), {"cassandra nodes": "warn"}),
        (replace(GOOD, each=[NODE, AWAY, AWAY]), {"cassandra nodes": "warn", "cassandra copies": "fail"}),
        (copied({"class": "SimpleStrategy", "replication_factor": "1"}, NODE), {"cassandra copies": "warn"}),
        (copied({"here": "1"}, NODE, AWAY), {"cassandra nodes": "warn", "cassandra copies": "fail"}),
        (copied({"here": "2"}, NODE, NODE), {"cassandra copies": "warn"}),
        (copied({"here": "3"}, NODE), {"cassandra copies": "fail"}),
        (copied({"here": "3"}, NODE, NODE), {}),
        (copied({"here": "3/1"}, NODE, NODE, NODE), {}),
        (copied({"elsewhere": "3"}, NODE, NODE, NODE), {"cassandra copies": "fail"}),
        (copied(THREE, replace(NODE, datacenter="elsewhere")), {"cassandra copies": "fail"}),
        (replace(GOOD, entries=ENTRIES[1:]), {"cassandra schema": "fail"}),
        (replace(GOOD, entries=[*ENTRIES[1:], replace(ENTRIES[0], applied=False)]), {"cassandra schema": "fail"}),
        (replace(GOOD, entries=[*ENTRIES[1:], replace(ENTRIES[0], checksum="x")]), {"cassandra schema": "warn"}),
        (replace(GOOD, entries=[*ENTRIES, replace(ENTRIES[0], number=99)]), {"cassandra schema": "warn"}),
        (
            replace(GOOD, entries=[*ENTRIES, replace(ENTRIES[0], phase="post", number=99)]),
            {"cassandra schema": "fail"},
        ),
        (replace(GOOD, entries=None), {"cassandra schema": "fail"}),
        (
            replace(GOOD, entries=[], replication=None),
            {"cassandra schema": "fail", "cassandra copies": "fail"},
        ),
        (
            replace(GOOD, each=[AWAY]),
            {"cassandra version": "fail", "cassandra nodes": "warn", "cassandra copies": "fail"},
        ),
    ],
)
def test_odd_answers_of_cassandra_are_found(nodes: Nodes, found: dict[str, str]) -> None:
    assert of(nodes) == found


def test_one_copy_and_a_periodic_log_say_what_a_kill_costs() -> None:
    alone = replace(NODE, settings={**SETTINGS, "commitlog_sync": "periodic"})
    told = {each.name: each for each in of_cassandra(copied({"here": "1"}, alone), ACCESS)}
    assert "ten seconds" in told["cassandra commit log"].remedy
    assert "ALTER" not in told["cassandra copies"].remedy  # with three copies on one node no quorum would answer
    three = [alone, *(replace(alone, address=address) for address in ("n2", "n3"))]
    told = {each.name: each for each in of_cassandra(copied({"here": "1"}, *three), ACCESS)}
    alter = (
        "ALTER KEYSPACE ours WITH replication = {'class': 'NetworkTopologyStrategy', 'here': 3}. Then `nodetool repair"
    )
    assert told["cassandra copies"].remedy.startswith(alter)


@pytest.mark.parametrize(
    ("brokers", "found"),
    [
        (BROKERS, {}),
        (replace(BROKERS, version=(3, 9)), {"kafka version": "fail"}),
        (replace(BROKERS, pending=["make mentions"], topics={}), {"kafka topics": "fail"}),
        (replace(BROKERS, topics={"m": kafka.TopicStatus(replicas=1, insync=1, min_insync=1)}), {"kafka m": "warn"}),
        (replace(BROKERS, topics={"m": kafka.TopicStatus(replicas=3, insync=2, min_insync=2)}), {"kafka m": "warn"}),
        (replace(BROKERS, topics={"m": kafka.TopicStatus(replicas=3, insync=1, min_insync=2)}), {"kafka m": "fail"}),
    ],
)
def test_odd_answers_of_kafka_are_found(brokers: kafka.ClusterStatus, found: dict[str, str]) -> None:
    assert wrong(list(of_kafka(brokers))) == found


@pytest.mark.parametrize(
    ("server", "queues", "found"),
    [
        (SERVER, True, {}),
        (replace(SERVER, name="redis", version="6.2.14"), True, {"redis version": "fail"}),
        (replace(SERVER, version="10.0.0"), True, {}),
        (replace(SERVER, ahead=-3.0), True, {"redis clock": "fail"}),
        (replace(SERVER, policy="allkeys-lru"), True, {"redis policy": "fail"}),
        (replace(SERVER, policy="allkeys-lru"), False, {}),
    ],
)
def test_odd_answers_of_redis_are_found(server: redis.RedisServer, *, queues: bool, found: dict[str, str]) -> None:
    assert wrong(list(of_redis("redis", server, queues=queues))) == found


def test_a_clock_is_blamed_for_no_more_than_the_way_of_its_answer_leaves() -> None:
    assert ahead(100.5, 100.0, 101.0) == 0
    assert ahead(102.0, 100.0, 101.0) == 1
    assert ahead(99.0, 100.0, 101.0) == -1


def test_one_that_hangs_and_one_that_is_away_hold_up_none_of_the_others() -> None:
    never, began = Event(), monotonic()

    def away() -> Sequence[Inspection]:
        raise StoreUnavailable("no node")

    def hangs() -> Sequence[Inspection]:
        never.wait()
        return []

    looks = {"hangs": hangs, "away": away, "good": list[Inspection]}
    found = {each.name: each for each in inspected(looks, within=0.2)}
    assert monotonic() - began < 5
    assert wrong(list(found.values())) == {"hangs": "fail", "away": "fail"}
    assert "no node" in found["away"].detail
    assert list(found) == ["hangs", "away", "good"]
    never.set()


def test_a_mistake_of_ours_is_no_finding() -> None:
    def mistaken() -> Sequence[Inspection]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(inspected({"mistaken": mistaken}))


def test_a_redis_that_isnt_there_is_away() -> None:
    with pytest.raises(CacheUnavailable):
        redis.look("redis://127.0.0.1:1")
