"""Inspections of the external engines, for `notifier doctor`."""

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
    inspections: Mapping[str, EngineInspection], within: float = INSPECTION_TIMEOUT
) -> Iterator[Inspection]:
    """Run all inspections concurrently and yield their results in order.

    An engine that fails or hangs yields a single failed inspection with the engine's name.
    """
    deadline = monotonic() + within
    running = {name: _RunningInspection(inspect) for name, inspect in inspections.items()}
    for name, inspection in running.items():
        yield from inspection.results(name, max(0.0, deadline - monotonic()))


class _RunningInspection:
    def __init__(self, inspect: EngineInspection) -> None:
        self._inspect = inspect
        self._results: Sequence[Inspection] = ()
        self._error: Exception | None = None
        # A daemon thread, so that a hanging engine does not delay the end of the process.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def results(self, name: str, within: float) -> Sequence[Inspection]:
        self._thread.join(within)
        if self._thread.is_alive():
            return [_failed_inspection(name, f"No answer within {INSPECTION_TIMEOUT:g} s.")]
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
        except Exception as error:  # re-raised by `found`, in the caller's thread
            self._error = error


def _failed_inspection(name: str, detail: str) -> Inspection:
    remedy = (
        "Start it, or correct its address and credentials: `notifier settings --profile cluster` shows the "
        "current values."
    )
    return Inspection(name=name, level="fail", detail=detail, remedy=remedy)


# Assessment of the engines' states, with remedies. Pure functions.

CLOCK_WARNS, CLOCK_FAILS = 0.5, 2.0
"""Seconds of clock skew. Cassandra's last write wins by clock, and each process checks by its own clock whether a burst
is visible yet."""
OLDEST_CASSANDRA, OLDEST_KAFKA, OLDEST_REDIS = (5, 0), (4, 0), (7,)
REPLICAS = 3
"""Replicas. With three, one node may be in repair while another fails."""
BATCH_KIB, BATCH_PARTITIONS = 50, 10
"""Cassandra's default limits; the batches of the bulk writer stay below them."""
KIB = {"B": 1 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024**2}
REPAIR = "Then run `nodetool repair --full` on each node: existing data has only its old copies."


def inspect_cassandra(nodes: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> Iterator[Inspection]:
    here = [node for node in nodes.nodes if node.datacenter == access.datacenter]
    yield cassandra_version([node.version for node in nodes.nodes if node.is_up])
    yield clock("cassandra", max((node.clock_lead for node in nodes.nodes if node.is_up), key=abs, default=0.0))
    yield down([node.address for node in nodes.nodes if not node.is_up])
    yield schema(nodes)
    copies = _replica_count(nodes, access)
    yield replication(copies, here, access, known=nodes.replication is not None)
    for node in [node for node in here if node.is_up][:1]:
        yield batches(node.settings)
        yield commitlog(node.settings, copies)


def cassandra_version(versions: Sequence[str]) -> Inspection:
    oldest = min(versions, key=_numbers, default="")
    bad = not versions or _numbers(oldest) < OLDEST_CASSANDRA
    untested = any(_numbers(version) >= (OLDEST_CASSANDRA[0] + 1,) for version in versions)
    return Inspection(
        name="cassandra version",
        level="fail" if bad else "warn" if untested else "ok",
        detail=f"{', '.join(sorted(set(versions))) or 'unknown'}.",
        remedy="Use Cassandra 5.0 or a newer 5."
        if bad
        else "This version is newer than any tested one."
        if untested
        else "",
        value=oldest,
        limit="5.0",
    )


def clock(engine: str, ahead: float) -> Inspection:
    off = abs(ahead)
    level: Level = "fail" if off >= CLOCK_FAILS else "warn" if off >= CLOCK_WARNS else "ok"
    return Inspection(
        name=f"{engine} clock",
        level=level,
        detail=f"{off:.2f} s {('ahead of' if ahead > 0 else 'behind')} this machine." if off >= 0.01 else "In sync.",
        remedy=""
        if level == "ok"
        else "Let both use the same time server; `chronyc tracking` shows which one is wrong.",
        value=round(ahead, 3),
        limit=CLOCK_FAILS,
    )


def down(addresses: Sequence[str]) -> Inspection:
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


def schema(nodes: cassandra.CassandraStatus) -> Inspection:
    if nodes.migrations is None:
        detail = "The register of migrations can't be read at a quorum."
        return Inspection(
            name="cassandra schema", level="fail", detail=detail, remedy="Check the nodes and their copies."
        )
    missing, foreign = cassandra.missing(nodes.migrations)
    if foreign:
        harmless = all(name.startswith("pre/") for name in foreign)
        return Inspection(
            name="cassandra schema",
            level="warn" if harmless else "fail",
            detail=f"Not from this version: {', '.join(foreign)}.",
            remedy="Expected during an upgrade; otherwise run the newer version, or use another keyspace.",
            value=len(foreign),
        )
    needed = [name for name in missing if name.startswith("pre/")]
    return Inspection(
        name="cassandra schema",
        level="fail" if needed or nodes.replication is None else "warn" if missing else "ok",
        detail=f"Missing: {', '.join(missing)}." if missing else "Up to date.",
        remedy="Run `notifier migrate --profile cluster` to apply them." if missing else "",
        value=len(missing),
        limit=0,
    )


def replication(
    copies: int, here: Sequence[cassandra.NodeStatus], access: cassandra.CassandraAccess, *, known: bool = True
) -> Inspection:
    """Assess whether every row still has a quorum, even one whose replicas include all nodes that are down.

    Replicas beyond the number of nodes do not exist, so they do not count as placed.
    """
    away, placed = sum(not node.is_up for node in here), min(copies, len(here))
    quorum = copies // 2 + 1
    copied = f"{{'class': 'NetworkTopologyStrategy', '{access.datacenter}': {REPLICAS}}}"
    alter = f"ALTER KEYSPACE {access.keyspace} WITH replication = {copied}. {REPAIR}"
    if not known:
        level: Level = "fail"
        remedy = (
            "Run `notifier migrate --profile cluster` to create the keyspace with NOTIFIER_CASSANDRA_REPLICAS copies."
        )
    elif not here or not copies:
        level = "fail"
        remedy = (
            f"Set NOTIFIER_CASSANDRA_DATACENTER to the nodes' datacenter, and give the keyspace copies there: {alter}"
        )
    elif placed - away < quorum:
        level, remedy = (
            "fail",
            f"Start {quorum - placed + away} of its nodes: LOCAL_QUORUM is not available for all rows.",
        )
    else:
        enough = (
            alter
            if len(here) >= REPLICAS
            else f"Use three nodes with {REPLICAS} copies, so that the loss of one is harmless."
        )
        level, remedy = ("warn", enough) if copies < REPLICAS else ("ok", "")
    detail = f"{copies} copies on {len(here) - away} of {len(here)} nodes in {access.datacenter}."
    return Inspection(name="cassandra copies", level=level, detail=detail, remedy=remedy, value=copies, limit=REPLICAS)


def batches(settings: Mapping[str, str]) -> Inspection:
    """Assess the node's batch limits. A slice whose batches exceed the hard limit can never complete."""
    hard_limit = _kib(settings.get("batch_size_fail_threshold", ""))
    warn_limit = _number(settings.get("unlogged_batch_across_partitions_warn_threshold", ""))
    low = hard_limit is not None and hard_limit < BATCH_KIB
    loud = warn_limit is not None and warn_limit < BATCH_PARTITIONS
    return Inspection(
        name="cassandra batches",
        level="fail" if low else "warn" if loud else "ok",
        detail=f"Fail threshold {hard_limit or 0:g} KiB, warning threshold {warn_limit or 0} partitions.",
        remedy=f"Set batch_size_fail_threshold to {BATCH_KIB}KiB or more in cassandra.yaml."
        if low
        else f"Set unlogged_batch_across_partitions_warn_threshold to {BATCH_PARTITIONS} to keep its log readable."
        if loud
        else "",
        value=hard_limit,
        limit=BATCH_KIB,
    )


def commitlog(settings: Mapping[str, str], copies: int) -> Inspection:
    sync = settings.get("commitlog_sync", "unknown")
    risky = sync == "periodic" and copies < 2
    return Inspection(
        name="cassandra commit log",
        level="warn" if risky else "ok",
        detail=f"{sync}.",
        remedy="With one copy, a kill of the node loses up to ten seconds of acknowledged writes: set commitlog_sync"
        " to batch in cassandra.yaml, or use three copies."
        if risky
        else "",
        value=sync,
    )


def inspect_kafka(status: kafka.ClusterStatus) -> Iterator[Inspection]:
    old = status.version < OLDEST_KAFKA
    yield Inspection(
        name="kafka version",
        level="fail" if old else "ok",
        detail=f"{'.'.join(map(str, status.version))}, {status.brokers} brokers.",
        remedy="Use Kafka 4.0 or newer." if old else "",
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
    yield from (topic(stream, topic_status) for stream, topic_status in status.topics.items())


def topic(stream: str, status: kafka.TopicStatus) -> Inspection:
    refuses, thin = status.insync < status.min_insync, status.replicas < REPLICAS
    is_behind = status.insync < status.replicas
    remedy = ""
    if refuses:
        remedy = "Start the missing brokers: until then no event is accepted."
    elif is_behind:
        remedy = "A broker is down or behind; see its log."
    elif thin:
        remedy = "Losing a broker now loses records. With three brokers, add copies with kafka-reassign-partitions."
    return Inspection(
        name=f"kafka {stream}",
        level="fail" if refuses else "warn" if remedy else "ok",
        detail=f"{status.insync} of {status.replicas} replicas in sync, {status.min_insync} needed.",
        remedy=remedy,
        value=status.insync,
        limit=status.min_insync,
    )


def inspect_redis(name: str, server: redis.RedisServer, *, queues: bool) -> Iterator[Inspection]:
    old = _numbers(server.version) < OLDEST_REDIS
    yield Inspection(
        name=f"{name} version",
        level="fail" if old else "ok",
        detail=f"{server.name} {server.version}.",
        remedy="Use Redis or Valkey 7 or newer." if old else "",
        value=server.version,
        limit="7",
    )
    yield clock(name, server.clock_lead)
    if queues:
        forgets = server.policy != "noeviction"
        yield Inspection(
            name=f"{name} policy",
            level="fail" if forgets else "ok",
            detail=f"{server.policy or 'unknown'}.",
            remedy=(
                "Run CONFIG SET maxmemory-policy noeviction, and set it in the configuration file: a full "
                "server must reject tasks, not lose them."
            )
            if forgets
            else "",
            value=server.policy,
            limit="noeviction",
        )


def _replica_count(nodes: cassandra.CassandraStatus, access: cassandra.CassandraAccess) -> int:
    """Return the number of replicas in our datacenter. A transient replica (`3/1`) counts as a replica."""
    replication = nodes.replication or {}
    text = replication.get(access.datacenter) or replication.get("replication_factor") or "0"
    return int(re.match(r"\d*", text)[0] or 0)  # type: ignore[index] # the pattern matches any text


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


def _kib(text: str) -> float | None:
    match = re.fullmatch(r"(\d+)\s*(B|KiB|MiB|GiB)", text)
    return int(match[1]) * KIB[match[2]] if match else None


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
