"""Checks of Cassandra, Kafka and Redis for `notifier doctor`."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from notifier.adapters import cassandra, kafka, redis
from notifier.domain.errors import NotifierError
from notifier.profiles.profile import Inspection, Level

# Concurrent inspection of all engines. A hanging engine does not delay the results of the others.

INSPECTION_TIMEOUT = 4.5
"""Seconds for all engines together."""

EngineInspection = Callable[[], Sequence[Inspection]]


def run_inspections(
    inspections: Mapping[str, EngineInspection], timeout: float = INSPECTION_TIMEOUT
) -> Iterator[Inspection]:
    """Run all inspections concurrently and yield their results in order.

    An engine that fails or hangs yields a single failed inspection with the engine's name.
    """
    deadline = monotonic() + timeout
    running = {name: _RunningInspection(inspect) for name, inspect in inspections.items()}
    for name, inspection in running.items():
        yield from inspection.results(name, deadline, timeout)


class _RunningInspection:
    def __init__(self, inspect: EngineInspection) -> None:
        self._inspect = inspect
        self._results: Sequence[Inspection] = ()
        self._error: Exception | None = None
        # A daemon thread, so that a hanging engine does not delay the end of the process.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def results(self, name: str, deadline: float, timeout: float) -> Sequence[Inspection]:
        self._thread.join(max(0.0, deadline - monotonic()))
        if self._thread.is_alive():
            return [_failed_inspection(name, f"No answer within {timeout:g} s.")]
        match self._error:
            case None:
                return [Inspection(name=name, detail="It answers and accepts the credentials."), *self._results]
            case NotifierError():
                return [_failed_inspection(name, str(self._error))]
            case error:
                raise error

    def _run(self) -> None:
        try:
            self._results = self._inspect()
        except Exception as error:  # re-raised by `results`, in the caller's thread
            self._error = error


def _failed_inspection(name: str, detail: str) -> Inspection:
    remedy = (
        "Start it, or correct its address and credentials: `notifier settings --profile cluster` shows the "
        "current values."
    )
    return Inspection(name=name, level="fail", detail=detail, remedy=remedy)


# Assessment of the engines' states, with remedies. Pure functions.

CLOCK_WARN_SECONDS, CLOCK_FAIL_SECONDS = 0.5, 2.0
"""Clock skew at which the inspection warns or fails.

In Cassandra the last write wins by clock. Each process checks by its own clock whether a burst is visible yet.
"""
MIN_CASSANDRA, MIN_KAFKA, MIN_REDIS = (5, 0), (4, 0), (7,)
MIN_REPLICAS = 3
"""Copies of each row. With three, the loss of one node leaves a quorum."""
MIN_BATCH_KIB, MIN_BATCH_PARTITIONS = 50, 10
"""Cassandra's default limits. The bulk writer's batches fit them. A node with lower limits rejects the batches."""
KIB_PER_UNIT = {"B": 1 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024**2}
REPAIR_ADVICE = "Then run `nodetool repair --full` on each node: existing data has only its old copies."


def inspect_cassandra(nodes: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> Iterator[Inspection]:
    local_nodes = [node for node in nodes.nodes if node.datacenter == access.datacenter]
    yield version_inspection([node.version for node in nodes.nodes if node.is_up])
    yield clock_inspection(
        "cassandra", max((node.clock_lead for node in nodes.nodes if node.is_up), key=abs, default=0.0)
    )
    yield nodes_inspection([node.address for node in nodes.nodes if not node.is_up])
    yield schema_inspection(nodes)
    copies = _replica_count(nodes, access)
    yield replication_inspection(copies, local_nodes, access, known=nodes.replication is not None)
    for node in [node for node in local_nodes if node.is_up][:1]:
        yield batch_inspection(node.settings)
        yield commitlog_inspection(node.settings, copies)


def version_inspection(versions: Sequence[str]) -> Inspection:
    oldest = min(versions, key=_version_numbers, default="")
    is_unsupported = not versions or _version_numbers(oldest) < MIN_CASSANDRA
    is_untested = any(_version_numbers(version) >= (MIN_CASSANDRA[0] + 1,) for version in versions)
    return Inspection(
        name="cassandra version",
        level="fail" if is_unsupported else "warn" if is_untested else "ok",
        detail=f"{', '.join(sorted(set(versions))) or 'unknown'}.",
        remedy="Use Cassandra 5.0 or a newer 5."
        if is_unsupported
        else "This version is newer than any tested one."
        if is_untested
        else "",
        value=oldest,
        limit="5.0",
    )


def clock_inspection(engine: str, clock_lead: float) -> Inspection:
    skew = abs(clock_lead)
    level: Level = "fail" if skew >= CLOCK_FAIL_SECONDS else "warn" if skew >= CLOCK_WARN_SECONDS else "ok"
    return Inspection(
        name=f"{engine} clock",
        level=level,
        detail=f"{skew:.2f} s {('ahead of' if clock_lead > 0 else 'behind')} this machine."
        if skew >= 0.01
        else "In sync.",
        remedy=""
        if level == "ok"
        else "Let both use the same time server; `chronyc tracking` shows which one is wrong.",
        value=round(clock_lead, 3),
        limit=CLOCK_FAIL_SECONDS,
    )


def nodes_inspection(addresses: Sequence[str]) -> Inspection:
    return Inspection(
        name="cassandra nodes",
        level="warn" if addresses else "ok",
        detail=f"No answer from {', '.join(addresses)}." if addresses else "All nodes answer.",
        remedy="Start them within three hours, or repair them afterwards: hints are kept for three hours."
        if addresses
        else "",
        value=len(addresses),
        limit=0,
    )


def schema_inspection(nodes: cassandra.CassandraStatus) -> Inspection:
    if nodes.migrations is None:
        detail = "The register of migrations can't be read at a quorum."
        return Inspection(
            name="cassandra schema", level="fail", detail=detail, remedy="Check the nodes and their copies."
        )
    missing, unknown = cassandra.migration_differences(nodes.migrations)
    if unknown:
        is_harmless = all(name.startswith("pre/") for name in unknown)
        return Inspection(
            name="cassandra schema",
            level="warn" if is_harmless else "fail",
            detail=f"Not from this version: {', '.join(unknown)}.",
            remedy="Expected during an upgrade; otherwise run the newer version, or use another keyspace.",
            value=len(unknown),
        )
    required = [name for name in missing if name.startswith("pre/")]
    return Inspection(
        name="cassandra schema",
        level="fail" if required or nodes.replication is None else "warn" if missing else "ok",
        detail=f"Missing: {', '.join(missing)}." if missing else "Up to date.",
        remedy="Run `notifier migrate --profile cluster` to apply them." if missing else "",
        value=len(missing),
        limit=0,
    )


def replication_inspection(
    copies: int, local_nodes: Sequence[cassandra.NodeStatus], access: cassandra.CassandraAccess, *, known: bool = True
) -> Inspection:
    """Assess the worst case: whether a row still has a quorum if all nodes that are down are among its replicas.

    A keyspace may ask for more copies than there are nodes. The excess does not exist, and is not in `placed_copies`.
    """
    down_count, placed_copies = sum(not node.is_up for node in local_nodes), min(copies, len(local_nodes))
    quorum = copies // 2 + 1
    replication_text = f"{{'class': 'NetworkTopologyStrategy', '{access.datacenter}': {MIN_REPLICAS}}}"
    alter = f"ALTER KEYSPACE {access.keyspace} WITH replication = {replication_text}. {REPAIR_ADVICE}"
    if not known:
        level: Level = "fail"
        remedy = (
            "Run `notifier migrate --profile cluster` to create the keyspace with NOTIFIER_CASSANDRA_REPLICAS copies."
        )
    elif not local_nodes or not copies:
        level = "fail"
        remedy = (
            f"Set NOTIFIER_CASSANDRA_DATACENTER to the nodes' datacenter, and give the keyspace copies there: {alter}"
        )
    elif placed_copies - down_count < quorum:
        level, remedy = (
            "fail",
            f"Start {quorum - placed_copies + down_count} of its nodes: LOCAL_QUORUM is not available for all rows.",
        )
    else:
        advice = (
            alter
            if len(local_nodes) >= MIN_REPLICAS
            else f"Use three nodes with {MIN_REPLICAS} copies, so that the loss of one is harmless."
        )
        level, remedy = ("warn", advice) if copies < MIN_REPLICAS else ("ok", "")
    detail = f"{copies} copies on {len(local_nodes) - down_count} of {len(local_nodes)} nodes in {access.datacenter}."
    return Inspection(
        name="cassandra copies", level=level, detail=detail, remedy=remedy, value=copies, limit=MIN_REPLICAS
    )


def batch_inspection(settings: Mapping[str, str]) -> Inspection:
    """Assess the node's batch limits. A slice whose batches exceed the hard limit can never complete."""
    hard_limit = _parse_kib(settings.get("batch_size_fail_threshold", ""))
    warn_limit = _parse_int(settings.get("unlogged_batch_across_partitions_warn_threshold", ""))
    is_limit_too_low = hard_limit is not None and hard_limit < MIN_BATCH_KIB
    warns_too_early = warn_limit is not None and warn_limit < MIN_BATCH_PARTITIONS
    return Inspection(
        name="cassandra batches",
        level="fail" if is_limit_too_low else "warn" if warns_too_early else "ok",
        detail=f"Fail threshold {hard_limit or 0:g} KiB, warning threshold {warn_limit or 0} partitions.",
        remedy=f"Set batch_size_fail_threshold to {MIN_BATCH_KIB}KiB or more in cassandra.yaml."
        if is_limit_too_low
        else f"Set unlogged_batch_across_partitions_warn_threshold to {MIN_BATCH_PARTITIONS} to keep its log readable."
        if warns_too_early
        else "",
        value=hard_limit,
        limit=MIN_BATCH_KIB,
    )


def commitlog_inspection(settings: Mapping[str, str], copies: int) -> Inspection:
    sync = settings.get("commitlog_sync", "unknown")
    is_risky = sync == "periodic" and copies < 2
    return Inspection(
        name="cassandra commit log",
        level="warn" if is_risky else "ok",
        detail=f"{sync}.",
        remedy="With one copy, a kill of the node loses up to ten seconds of acknowledged writes: set commitlog_sync"
        " to batch in cassandra.yaml, or use three copies."
        if is_risky
        else "",
        value=sync,
    )


def inspect_kafka(status: kafka.ClusterStatus) -> Iterator[Inspection]:
    is_too_old = status.version < MIN_KAFKA
    yield Inspection(
        name="kafka version",
        level="fail" if is_too_old else "ok",
        detail=f"{'.'.join(map(str, status.version))}, {status.brokers} brokers.",
        remedy="Use Kafka 4.0 or newer." if is_too_old else "",
        value=".".join(map(str, status.version)),
        limit="4.0",
    )
    steps = ", ".join(status.pending)
    yield Inspection(
        name="kafka topics",
        level="fail" if status.pending else "ok",
        detail=f"Missing: {steps}." if steps else "Like topics.toml, or with more partitions.",
        remedy="Run `notifier migrate --profile cluster` to run these steps." if steps else "",
        value=len(status.pending),
        limit=0,
    )
    yield from (topic_inspection(stream, topic_status) for stream, topic_status in status.topics.items())


def topic_inspection(stream: str, status: kafka.TopicStatus) -> Inspection:
    rejects_writes, is_under_replicated = status.insync < status.min_insync, status.replicas < MIN_REPLICAS
    is_behind = status.insync < status.replicas
    remedy = ""
    if rejects_writes:
        remedy = "Start the missing brokers: until then no event is accepted."
    elif is_behind:
        remedy = "A broker is down or behind; see its log."
    elif is_under_replicated:
        remedy = "Losing a broker now loses records. With three brokers, add copies with kafka-reassign-partitions."
    return Inspection(
        name=f"kafka {stream}",
        level="fail" if rejects_writes else "warn" if remedy else "ok",
        detail=f"{status.insync} of {status.replicas} replicas in sync, {status.min_insync} needed.",
        remedy=remedy,
        value=status.insync,
        limit=status.min_insync,
    )


def inspect_redis(name: str, server: redis.RedisServer, *, queues: bool) -> Iterator[Inspection]:
    is_too_old = _version_numbers(server.version) < MIN_REDIS
    yield Inspection(
        name=f"{name} version",
        level="fail" if is_too_old else "ok",
        detail=f"{server.name} {server.version}.",
        remedy="Use Redis or Valkey 7 or newer." if is_too_old else "",
        value=server.version,
        limit="7",
    )
    yield clock_inspection(name, server.clock_lead)
    if queues:
        evicts_keys = server.policy != "noeviction"
        yield Inspection(
            name=f"{name} policy",
            level="fail" if evicts_keys else "ok",
            detail=f"{server.policy or 'unknown'}.",
            remedy=(
                "Run CONFIG SET maxmemory-policy noeviction, and set it in the configuration file: a full "
                "server must reject tasks, not lose them."
            )
            if evicts_keys
            else "",
            value=server.policy,
            limit="noeviction",
        )


def _replica_count(nodes: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> int:
    """Return the number of replicas in our datacenter. A transient replica (`3/1`) counts as a replica."""
    replication = nodes.replication or {}
    text = replication.get(access.datacenter) or replication.get("replication_factor") or "0"
    return int(re.match(r"\d*", text)[0] or 0)  # type: ignore[index] # the pattern matches any text


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


def _parse_kib(text: str) -> float | None:
    match = re.fullmatch(r"(\d+)\s*(B|KiB|MiB|GiB)", text)
    return int(match[1]) * KIB_PER_UNIT[match[2]] if match else None


def _parse_int(text: str) -> int | None:
    return int(text) if text.isdigit() else None
