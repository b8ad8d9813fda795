"""Checks of Cassandra, Kafka and Redis for `notifier doctor`."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic

from notifier.adapters import cassandra, kafka, redis
from notifier.domain.errors import NotifierError
from notifier.profiles.profile import Inspection, Level

# Each engine is inspected in its own thread. An engine that hangs takes the whole timeout, but the results of all other
# engines are still reported.

INSPECTION_TIMEOUT = 4.5
"""Seconds after which an inspection fails."""

EngineInspection = Callable[[], Sequence[Inspection]]


def run_inspections(
    inspections: Mapping[str, EngineInspection], timeout: float = INSPECTION_TIMEOUT
) -> Iterator[Inspection]:
    """Run all inspections concurrently. Yield the results in the order of the mapping.

    If an inspection raises a NotifierError or does not end in time, its only result is a failed inspection with the
    engine's name. Other errors are raised here.
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
        # A daemon thread does not keep the process alive while its engine hangs.
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


# Pure functions that assess the state of an engine and suggest a remedy.

CLOCK_WARN_SECONDS, CLOCK_FAIL_SECONDS = 0.5, 2.0
"""Clock skew at which the inspection warns or fails.

Cassandra resolves conflicting writes by timestamps, which come from clocks. Each process also decides by its own clock
whether a burst is visible yet.
"""
MIN_CASSANDRA_VERSION, MIN_KAFKA_VERSION, MIN_REDIS_VERSION = (5, 0), (4, 0), (7,)
MIN_REPLICAS = 3
"""Recommended copies of each Cassandra row and each Kafka partition. Of three copies, a majority survives one loss."""
MIN_FAIL_THRESHOLD_KIB, MIN_WARN_THRESHOLD_PARTITIONS = 50, 10
"""Cassandra's default limits for the size of a batch, and for the partitions of an unlogged batch. Our batches fit.

A node rejects batches above the fail threshold, and logs a warning for batches above the warn threshold.
"""
KIB_PER_UNIT = {"B": 1 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024**2}
REPAIR_ADVICE = "Then run `nodetool repair --full` on each node, which copies the existing data to the new replicas."


def inspect_cassandra(status: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> Iterator[Inspection]:
    local_nodes = [node for node in status.nodes if node.datacenter == access.datacenter]
    yield version_inspection([node.version for node in status.nodes if node.is_up])
    yield clock_inspection(
        "cassandra", max((node.clock_lead for node in status.nodes if node.is_up), key=abs, default=0.0)
    )
    yield nodes_inspection([node.address for node in status.nodes if not node.is_up])
    yield schema_inspection(status)
    copy_count = _copy_count(status, access)
    yield replication_inspection(copy_count, local_nodes, access, keyspace_exists=status.replication is not None)
    for node in [node for node in local_nodes if node.is_up][:1]:  # one node: all should have the same settings
        yield batch_inspection(node.settings)
        yield commitlog_inspection(node.settings, copy_count)


def version_inspection(versions: Sequence[str]) -> Inspection:
    oldest = min(versions, key=_version_numbers, default="")
    is_unsupported = not versions or _version_numbers(oldest) < MIN_CASSANDRA_VERSION
    is_untested = any(_version_numbers(version) >= (MIN_CASSANDRA_VERSION[0] + 1,) for version in versions)
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
        else "Use the same time server on both machines; `chronyc tracking` shows whose clock is wrong.",
        value=round(clock_lead, 3),
        limit=CLOCK_FAIL_SECONDS,
    )


def nodes_inspection(silent_addresses: Sequence[str]) -> Inspection:
    return Inspection(
        name="cassandra nodes",
        level="warn" if silent_addresses else "ok",
        detail=f"No answer from {', '.join(silent_addresses)}." if silent_addresses else "All nodes answer.",
        remedy="Start them. Cassandra keeps the writes that a node missed (hints) for three hours; after a longer "
        "absence also run `nodetool repair` on it."
        if silent_addresses
        else "",
        value=len(silent_addresses),
        limit=0,
    )


def schema_inspection(status: cassandra.CassandraStatus) -> Inspection:
    if status.migrations is None:
        detail = "The register of migrations can't be read at a quorum."
        remedy = "Follow the remedies of `cassandra nodes` and `cassandra copies` first."
        return Inspection(name="cassandra schema", level="fail", detail=detail, remedy=remedy)
    missing, unknown = cassandra.migration_differences(status.migrations)
    if unknown:
        # Steps of the phase `pre` only add, so this older code can run with those of a newer version.
        is_harmless = all(name.startswith("pre/") for name in unknown)
        return Inspection(
            name="cassandra schema",
            level="warn" if is_harmless else "fail",
            detail=f"Not from this version: {', '.join(unknown)}.",
            remedy="Expected during an upgrade; otherwise run the newer version, or use another keyspace.",
            value=len(unknown),
        )
    # Without a step of the phase `pre` this code can't run. Steps of the phase `post` only remove.
    required = [name for name in missing if name.startswith("pre/")]
    return Inspection(
        name="cassandra schema",
        level="fail" if required or status.replication is None else "warn" if missing else "ok",
        detail=f"Missing: {', '.join(missing)}." if missing else "Up to date.",
        remedy="Run `notifier migrate --profile cluster` to apply them." if missing else "",
        value=len(missing),
        limit=0,
    )


def replication_inspection(
    copy_count: int,
    local_nodes: Sequence[cassandra.NodeStatus],
    access: cassandra.CassandraAccess,
    *,
    keyspace_exists: bool,
) -> Inspection:
    """Assess whether a row has a quorum even if all nodes that are down have a copy of the row.

    A keyspace may request more copies than there are nodes. Cassandra then places one copy on each node, but the quorum
    is still a majority of the requested copies.
    """
    down_count, placed_count = sum(not node.is_up for node in local_nodes), min(copy_count, len(local_nodes))
    quorum = copy_count // 2 + 1
    replication_text = f"{{'class': 'NetworkTopologyStrategy', '{access.datacenter}': {MIN_REPLICAS}}}"
    advice_to_alter = f"ALTER KEYSPACE {access.keyspace} WITH replication = {replication_text}. {REPAIR_ADVICE}"
    if not keyspace_exists:
        level: Level = "fail"
        remedy = (
            "Run `notifier migrate --profile cluster` to create the keyspace with NOTIFIER_CASSANDRA_REPLICAS copies."
        )
    elif not local_nodes or not copy_count:
        level = "fail"
        setting = "Set NOTIFIER_CASSANDRA_DATACENTER to the nodes' datacenter, and give the keyspace copies there"
        remedy = f"{setting}: {advice_to_alter}"
    elif placed_count - down_count < quorum:
        level, remedy = "fail", _quorum_remedy(quorum, placed_count, down_count)
    else:
        advice = (
            advice_to_alter
            if len(local_nodes) >= MIN_REPLICAS
            else f"Use three nodes with {MIN_REPLICAS} copies, so that the loss of one is harmless."
        )
        level, remedy = ("warn", advice) if copy_count < MIN_REPLICAS else ("ok", "")
    up_count = len(local_nodes) - down_count
    detail = f"{copy_count} copies of each row; {up_count} of {len(local_nodes)} nodes in {access.datacenter} are up."
    return Inspection(
        name="cassandra copies", level=level, detail=detail, remedy=remedy, value=copy_count, limit=MIN_REPLICAS
    )


def _quorum_remedy(quorum: int, placed_count: int, down_count: int) -> str:
    add_count = max(0, quorum - placed_count)
    start_count = quorum - placed_count + down_count - add_count
    start_advice = [f"Start at least {start_count} of the nodes that are down."] if start_count else []
    add_advice = [f"Add nodes (at least {add_count}), or give the keyspace fewer copies."] if add_count else []
    return " ".join([*start_advice, *add_advice, f"Until then some rows lack a quorum of {quorum}, and can't be used."])


def batch_inspection(settings: Mapping[str, str]) -> Inspection:
    """Assess the node's batch limits. A slice whose batches exceed the fail threshold can never complete."""
    fail_threshold_kib = _parse_kib(settings.get("batch_size_fail_threshold", ""))
    warn_threshold_partitions = _parse_int(settings.get("unlogged_batch_across_partitions_warn_threshold", ""))
    is_fail_threshold_too_low = fail_threshold_kib is not None and fail_threshold_kib < MIN_FAIL_THRESHOLD_KIB
    warns_too_early = (
        warn_threshold_partitions is not None and warn_threshold_partitions < MIN_WARN_THRESHOLD_PARTITIONS
    )
    return Inspection(
        name="cassandra batches",
        level="fail" if is_fail_threshold_too_low else "warn" if warns_too_early else "ok",
        detail=f"Fail threshold {_number_text(fail_threshold_kib, 'KiB')}, "
        f"warning threshold {_number_text(warn_threshold_partitions, 'partitions')}.",
        remedy=f"Set batch_size_fail_threshold to {MIN_FAIL_THRESHOLD_KIB}KiB or more in cassandra.yaml."
        if is_fail_threshold_too_low
        else "The node logs a warning for many batches. Set unlogged_batch_across_partitions_warn_threshold to "
        f"{MIN_WARN_THRESHOLD_PARTITIONS} in cassandra.yaml."
        if warns_too_early
        else "",
        value=fail_threshold_kib,
        limit=MIN_FAIL_THRESHOLD_KIB,
    )


def _number_text(number: float | None, unit: str) -> str:
    return "unknown" if number is None else f"{number:g} {unit}"


def commitlog_inspection(settings: Mapping[str, str], copy_count: int) -> Inspection:
    sync = settings.get("commitlog_sync", "unknown")
    is_risky = sync == "periodic" and copy_count < 2
    return Inspection(
        name="cassandra commit log",
        level="warn" if is_risky else "ok",
        detail=f"{sync}.",
        remedy="With one copy, killing the node loses up to ten seconds of acknowledged writes. Set commitlog_sync to "
        "batch in cassandra.yaml, or use three copies."
        if is_risky
        else "",
        value=sync,
    )


def inspect_kafka(status: kafka.ClusterStatus) -> Iterator[Inspection]:
    is_too_old = status.version < MIN_KAFKA_VERSION
    yield Inspection(
        name="kafka version",
        level="fail" if is_too_old else "ok",
        detail=f"{'.'.join(map(str, status.version))}, {status.broker_count} brokers.",
        remedy="Use Kafka 4.0 or newer." if is_too_old else "",
        value=".".join(map(str, status.version)),
        limit="4.0",
    )
    steps = ", ".join(status.pending_migration_steps)
    yield Inspection(
        name="kafka topics",
        level="fail" if status.pending_migration_steps else "ok",
        detail=f"Missing: {steps}."
        if steps
        else "All topics have the settings of topics.toml, and at least as many partitions.",
        remedy="Run `notifier migrate --profile cluster` to run these steps." if steps else "",
        value=len(status.pending_migration_steps),
        limit=0,
    )
    yield from (topic_inspection(stream, topic_status) for stream, topic_status in status.topics.items())


def topic_inspection(stream: str, status: kafka.TopicStatus) -> Inspection:
    rejects_writes, has_few_replicas = status.insync_count < status.min_insync, status.replica_count < MIN_REPLICAS
    is_under_replicated = status.insync_count < status.replica_count
    remedy = ""
    if rejects_writes:
        remedy = "Start the brokers that are down: until then the topic accepts no records."
    elif is_under_replicated:
        remedy = "A broker is down, or a replica lags behind; see the brokers' logs."
    elif has_few_replicas:
        remedy = "Losing a broker may lose records. With three brokers, add replicas with kafka-reassign-partitions."
    return Inspection(
        name=f"kafka {stream}",
        level="fail" if rejects_writes else "warn" if remedy else "ok",
        detail=f"{status.insync_count} of {status.replica_count} replicas in sync, {status.min_insync} needed.",
        remedy=remedy,
        value=status.insync_count,
        limit=status.min_insync,
    )


def inspect_redis(name: str, server: redis.RedisServerStatus, *, holds_tasks: bool) -> Iterator[Inspection]:
    is_too_old = _version_numbers(server.version) < MIN_REDIS_VERSION
    yield Inspection(
        name=f"{name} version",
        level="fail" if is_too_old else "ok",
        detail=f"{server.name} {server.version}.",
        remedy="Use Redis or Valkey 7 or newer." if is_too_old else "",
        value=server.version,
        limit="7",
    )
    yield clock_inspection(name, server.clock_lead)
    if holds_tasks:
        may_evict_keys = server.eviction_policy != "noeviction"
        yield Inspection(
            name=f"{name} policy",
            level="fail" if may_evict_keys else "ok",
            detail=f"{server.eviction_policy or 'unknown'}.",
            remedy=(
                "Run CONFIG SET maxmemory-policy noeviction, and set it in the configuration file: a full "
                "server must reject tasks, not lose them."
            )
            if may_evict_keys
            else "",
            value=server.eviction_policy,
            limit="noeviction",
        )


def _copy_count(status: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> int:
    """Return the number of copies in our datacenter: 3 for `3/1`, which means three, one of them transient."""
    replication = status.replication or {}
    text = replication.get(access.datacenter) or replication.get("replication_factor") or "0"
    return int(re.match(r"\d*", text)[0] or 0)  # type: ignore[index] # the pattern matches any text


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


def _parse_kib(text: str) -> float | None:
    match = re.fullmatch(r"(\d+)\s*(B|KiB|MiB|GiB)", text)
    return int(match[1]) * KIB_PER_UNIT[match[2]] if match else None


def _parse_int(text: str) -> int | None:
    return int(text) if text.isdigit() else None
