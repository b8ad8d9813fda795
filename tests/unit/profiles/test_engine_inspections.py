"""Health inspections of engines: problems, remedies, and isolation of a frozen engine."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from time import monotonic

import pytest

from notifier.adapters import cassandra, kafka, redis
from notifier.adapters.cassandra import CassandraStatus, MigrationEntry, NodeStatus
from notifier.adapters.cassandra.schema.cluster_status import clock_lead_of, most_exact_reading
from notifier.adapters.cassandra.schema.migrate import FOLDER, CassandraMigration, Phase
from notifier.domain.errors import CacheUnavailable, StoreUnavailable
from notifier.profiles.engine_inspections import (
    batch_inspection,
    inspect_cassandra,
    inspect_kafka,
    inspect_redis,
    run_inspections,
)
from notifier.profiles.profile import Inspection

ACCESS = cassandra.CassandraAccess(hosts=["10.0.0.1"], keyspace="ours", datacenter="here")
SETTINGS = {
    "batch_size_fail_threshold": "50KiB",
    "unlogged_batch_across_partitions_warn_threshold": "10",
    "commitlog_sync": "group",
}
NODE = NodeStatus(address="10.0.0.1", datacenter="here", version="5.0.8", settings=SETTINGS)
DOWN = NodeStatus(address="10.0.0.9", datacenter="here", settings={})
THREE_COPIES = {"class": "NetworkTopologyStrategy", "here": "3"}
ENTRIES = [
    MigrationEntry(phase=phase, number=migration.number, name=migration.name, checksum=migration.checksum, applied=True)
    for phase in Phase
    for migration in (CassandraMigration.read(phase, path) for path in sorted((FOLDER / phase).glob("*.cql")))
]
HEALTHY = CassandraStatus(nodes=[NODE, NODE, NODE], replication=THREE_COPIES, migrations=ENTRIES)
BROKERS = kafka.ClusterStatus(
    version=(4, 3),
    broker_count=3,
    pending_migration_steps=[],
    topics={"mentions": kafka.TopicStatus(replica_count=3, insync_count=3, min_insync=2)},
)
SERVER = redis.RedisServerStatus(name="valkey", version="9.1.2", eviction_policy="noeviction", clock_lead=0.0)


def problems(inspections: Sequence[Inspection]) -> dict[str, str]:
    """Return the level of each problem; check that exactly the problems have a remedy."""
    assert all((inspection.level == "ok") == (inspection.remedy == "") for inspection in inspections)
    return {inspection.name: inspection.level for inspection in inspections if inspection.level != "ok"}


def cassandra_problems(nodes: CassandraStatus) -> dict[str, str]:
    return problems(list(inspect_cassandra(nodes, ACCESS)))


def with_changed_node(**changes: object) -> CassandraStatus:
    return replace(HEALTHY, nodes=[replace(NODE, **changes), NODE, NODE])  # type: ignore[arg-type] # keywords of the tests


def with_replication(replication: dict[str, str], *nodes: NodeStatus) -> CassandraStatus:
    return replace(HEALTHY, replication=replication, nodes=nodes)


@pytest.mark.parametrize(
    ("settings", "detail"),
    [
        (SETTINGS, "Fail threshold 50 KiB, warning threshold 10 partitions."),
        ({}, "Fail threshold unknown, warning threshold unknown."),
    ],
)
def test_unknown_batch_limits_are_reported_as_unknown(settings: dict[str, str], detail: str) -> None:
    assert batch_inspection(settings).detail == detail


def test_healthy_cluster_has_no_problems() -> None:
    assert cassandra_problems(HEALTHY) == {}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (with_changed_node(version="4.1.9"), {"cassandra version": "fail"}),
        (with_changed_node(version="5.0-rc1"), {}),
        (with_changed_node(version="5.10.0"), {}),
        (with_changed_node(version="6.0.0"), {"cassandra version": "warn"}),
        (with_changed_node(clock_lead=0.4), {}),
        (with_changed_node(clock_lead=-0.5), {"cassandra clock": "warn"}),
        (with_changed_node(clock_lead=2.0), {"cassandra clock": "fail"}),
        (with_changed_node(settings={**SETTINGS, "batch_size_fail_threshold": "49KiB"}), {"cassandra batches": "fail"}),
        (with_changed_node(settings={**SETTINGS, "batch_size_fail_threshold": "51200B"}), {}),
        (with_changed_node(settings={**SETTINGS, "batch_size_fail_threshold": "1MiB"}), {}),
        (
            with_changed_node(settings={**SETTINGS, "unlogged_batch_across_partitions_warn_threshold": "5"}),
            {"cassandra batches": "warn"},
        ),
        (with_changed_node(settings={**SETTINGS, "commitlog_sync": "periodic"}), {}),
        (with_changed_node(settings={}), {}),
        (replace(HEALTHY, nodes=[NODE, NODE, DOWN]), {"cassandra nodes": "warn"}),
        (replace(HEALTHY, nodes=[NODE, DOWN, DOWN]), {"cassandra nodes": "warn", "cassandra copies": "fail"}),
        (with_replication({"class": "SimpleStrategy", "replication_factor": "1"}, NODE), {"cassandra copies": "warn"}),
        (with_replication({"here": "1"}, NODE, DOWN), {"cassandra nodes": "warn", "cassandra copies": "fail"}),
        (with_replication({"here": "2"}, NODE, NODE), {"cassandra copies": "warn"}),
        (with_replication({"here": "3"}, NODE), {"cassandra copies": "fail"}),
        (with_replication({"here": "3"}, NODE, NODE), {}),
        (with_replication({"here": "3/1"}, NODE, NODE, NODE), {}),
        (with_replication({"elsewhere": "3"}, NODE, NODE, NODE), {"cassandra copies": "fail"}),
        (with_replication(THREE_COPIES, replace(NODE, datacenter="elsewhere")), {"cassandra copies": "fail"}),
        (replace(HEALTHY, migrations=ENTRIES[1:]), {"cassandra schema": "fail"}),
        (replace(HEALTHY, migrations=[*ENTRIES[1:], replace(ENTRIES[0], applied=False)]), {"cassandra schema": "fail"}),
        (replace(HEALTHY, migrations=[*ENTRIES[1:], replace(ENTRIES[0], checksum="x")]), {"cassandra schema": "warn"}),
        (replace(HEALTHY, migrations=[*ENTRIES, replace(ENTRIES[0], number=99)]), {"cassandra schema": "warn"}),
        (
            replace(HEALTHY, migrations=[*ENTRIES, replace(ENTRIES[0], phase="post", number=99)]),
            {"cassandra schema": "fail"},
        ),
        (replace(HEALTHY, migrations=None), {"cassandra schema": "fail"}),
        (
            replace(HEALTHY, migrations=[], replication=None),
            {"cassandra schema": "fail", "cassandra copies": "fail"},
        ),
        (
            replace(HEALTHY, nodes=[DOWN]),
            {"cassandra version": "fail", "cassandra nodes": "warn", "cassandra copies": "fail"},
        ),
    ],
)
def test_cassandra_problems_are_reported(nodes: CassandraStatus, expected: dict[str, str]) -> None:
    assert cassandra_problems(nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((NODE, DOWN, DOWN), "Start at least 1 of the nodes that are down."),
        ((NODE,), "Add nodes (at least 1),"),
        ((DOWN,), "Start at least 1 of the nodes that are down. Add nodes (at least 1),"),
    ],
)
def test_quorum_remedy_starts_or_adds_nodes(nodes: Sequence[NodeStatus], expected: str) -> None:
    inspections = inspect_cassandra(with_replication({"here": "3"}, *nodes), ACCESS)
    [copies] = [inspection for inspection in inspections if inspection.name == "cassandra copies"]
    assert copies.remedy.startswith(expected)


def test_single_copy_remedy_states_the_possible_loss() -> None:
    node = replace(NODE, settings={**SETTINGS, "commitlog_sync": "periodic"})
    inspections = {
        inspection.name: inspection for inspection in inspect_cassandra(with_replication({"here": "1"}, node), ACCESS)
    }
    assert "ten seconds" in inspections["cassandra commit log"].remedy
    assert "ALTER" not in inspections["cassandra copies"].remedy  # three copies on one node could not form a quorum
    nodes = [node, *(replace(node, address=address) for address in ("n2", "n3"))]
    inspections = {
        inspection.name: inspection for inspection in inspect_cassandra(with_replication({"here": "1"}, *nodes), ACCESS)
    }
    alter = (
        "ALTER KEYSPACE ours WITH replication = {'class': 'NetworkTopologyStrategy', 'here': 3}. "
        "Then run `nodetool repair"
    )
    assert inspections["cassandra copies"].remedy.startswith(alter)


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (BROKERS, {}),
        (replace(BROKERS, version=(3, 9)), {"kafka version": "fail"}),
        (replace(BROKERS, pending_migration_steps=["make mentions"], topics={}), {"kafka topics": "fail"}),
        (
            replace(BROKERS, topics={"m": kafka.TopicStatus(replica_count=1, insync_count=1, min_insync=1)}),
            {"kafka m": "warn"},
        ),
        (
            replace(BROKERS, topics={"m": kafka.TopicStatus(replica_count=3, insync_count=2, min_insync=2)}),
            {"kafka m": "warn"},
        ),
        (
            replace(BROKERS, topics={"m": kafka.TopicStatus(replica_count=3, insync_count=1, min_insync=2)}),
            {"kafka m": "fail"},
        ),
    ],
)
def test_kafka_problems_are_reported(brokers: kafka.ClusterStatus, expected: dict[str, str]) -> None:
    assert problems(list(inspect_kafka(brokers))) == expected


@pytest.mark.parametrize(
    ("server", "holds_tasks", "expected"),
    [
        (SERVER, True, {}),
        (replace(SERVER, name="redis", version="6.2.14"), True, {"redis version": "fail"}),
        (replace(SERVER, version="10.0.0"), True, {}),
        (replace(SERVER, clock_lead=-3.0), True, {"redis clock": "fail"}),
        (replace(SERVER, eviction_policy="allkeys-lru"), True, {"redis policy": "fail"}),
        (replace(SERVER, eviction_policy="allkeys-lru"), False, {}),
    ],
)
def test_redis_problems_are_reported(
    server: redis.RedisServerStatus, *, holds_tasks: bool, expected: dict[str, str]
) -> None:
    assert problems(list(inspect_redis("redis", server, holds_tasks=holds_tasks))) == expected


def test_clock_difference_excludes_the_round_trip() -> None:
    assert clock_lead_of(100.5, 100.0, 101.0) == 0
    assert clock_lead_of(102.0, 100.0, 101.0) == 1
    assert clock_lead_of(99.0, 100.0, 101.0) == -1


def test_slow_reading_hides_no_clock_lead() -> None:
    assert most_exact_reading([("5.0.8", 0.0), ("5.0.8", -2.5)]) == ("5.0.8", -2.5)


def test_hung_or_unavailable_engine_does_not_delay_others() -> None:
    released, began = Event(), monotonic()

    def unavailable() -> Sequence[Inspection]:
        raise StoreUnavailable("no node")

    def hangs() -> Sequence[Inspection]:
        released.wait()
        return []

    inspections = {"hangs": hangs, "away": unavailable, "good": list[Inspection]}
    results = {result.name: result for result in run_inspections(inspections, timeout=1.0)}
    assert monotonic() - began < 10
    assert problems(list(results.values())) == {"hangs": "fail", "away": "fail"}
    assert "no node" in results["away"].detail
    assert list(results) == ["hangs", "away", "good"]
    released.set()


def test_programming_error_is_raised() -> None:
    def failing() -> Sequence[Inspection]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(run_inspections({"mistaken": failing}))


def test_unreachable_redis_is_unavailable() -> None:
    with pytest.raises(CacheUnavailable):
        redis.server_status("redis://127.0.0.1:1")
