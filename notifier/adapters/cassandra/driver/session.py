"""Sessions of the Cassandra driver, with explicit settings and translated errors."""

import os
import re
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

import cassandra as vendor
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile, NoHostAvailable, Session
from cassandra.cluster import Cluster as Driver
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    NoSpeculativeExecutionPolicy,
    RetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, PreparedStatement, Statement, named_tuple_factory

from notifier.adapters.cassandra.driver.error_translation import classify_connection_error, translate_errors
from notifier.domain.errors import BadSetting, StoreUnavailable, UnusableEnvironment

# Retry policy. Some failed reads are retried on the next host. A write is never retried, because it may have taken
# effect although its response was lost. A request that times out, at a node or in this process, is not retried either.

MAX_READ_RETRIES = 2

_READ = re.compile(r"(\s|--[^\n]*\n)*SELECT\s", re.IGNORECASE)


class NextHostRetryPolicy(FallthroughRetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """Retries prepared reads on the next host, one host at a time.

    Another node may answer if the connection to the first one breaks, or if the first one is overloaded or sees too few
    live replicas.

    The driver's speculative execution would send a read to two hosts at once, and is unsafe. The driver accepts the
    responses of both, and may take a late page of one host for the next page of the other.
    """

    def on_request_error(self, query: Any, consistency: Any, error: Any, retry_num: int) -> tuple[int, Any]:
        return _retry_decision(query, retry_num)

    def on_unavailable(
        self, query: Any, consistency: Any, required_replicas: int, alive_replicas: int, retry_num: int
    ) -> tuple[int, Any]:
        return _retry_decision(query, retry_num)


def is_read(statement: str) -> bool:
    return _READ.match(statement) is not None


def _retry_decision(query: Any, retry_num: int) -> tuple[int, Any]:
    retry = getattr(query, "is_idempotent", False) and retry_num < MAX_READ_RETRIES
    return (RetryPolicy.RETRY_NEXT_HOST if retry else RetryPolicy.RETHROW), None


# Deadlines of requests. The driver's own timer refers to its request until the deadline, even after the response. The
# request refers to the response, so the bitmaps of several seconds of reads would stay in memory.


class DriverDeadline:
    """Timer of a request. `cancel` releases the callback, and with the callback the request."""

    def __init__(self, on_passed: Callable[[], object]) -> None:
        self.timer: Any = None
        self._on_passed: Callable[[], object] | None = on_passed

    def __call__(self) -> None:
        if (on_passed := self._on_passed) is not None:
            on_passed()

    def cancel(self) -> None:
        timer, self.timer, self._on_passed = self.timer, None, None
        if timer is not None:
            timer.cancel()


class CassandraConnection(Driver.connection_class):  # type: ignore[misc]  # the driver ships no types, and chooses its event loop
    """Connection whose request timers are DriverDeadlines."""

    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> DriverDeadline:
        deadline = DriverDeadline(callback)
        deadline.timer = super().create_timer(timeout, deadline)
        return deadline


# Rows with named columns. The driver's own factory creates a class for each response, which usually costs more than
# decoding the response.


def named_rows(columns: Sequence[str], raw_rows: Sequence[Sequence[object]]) -> list[Any]:
    """Return the rows as named tuples."""
    return list(map(_row_class(tuple(columns))._make, raw_rows))


@lru_cache(maxsize=512)
def _row_class(columns: tuple[str, ...]) -> Any:
    [row] = named_tuple_factory(columns, [columns])
    return type(row)


PROTOCOL_VERSION = vendor.ProtocolVersion.V4
"""Version of the native protocol. Version 5 would add checksums to those of TCP and TLS, at 10% more cost per row."""
PLAIN = EXEC_PROFILE_DEFAULT
"""Profile for reads and writes at LOCAL_QUORUM."""
SERIAL = "serial"
"""Profile for serial reads: they see each decided conditional write, and complete an interrupted one."""
RESPONSE_TIMEOUT = timedelta(seconds=5)
"""Default timeout of a request, of a connection attempt, and of the driver's own queries."""
SCHEMA_CHANGE_TIMEOUT = timedelta(seconds=30)
RECONNECT_INTERVAL = 1.0
"""Seconds between reconnection attempts.

The interval is constant. With the driver's own backoff, a node could stay unused for ten minutes after its return.
"""
HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT = 2.0, 3.0
"""Heartbeat interval and timeout in seconds. A hung node is dropped after about five seconds. The driver's defaults
take a minute."""
MAX_IN_FLIGHT_PER_CALL = 128
"""Maximum queries in flight per call. More would only wait in the node's queue."""
_KEYSPACE_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_SINGLE_REPLICA = {"class": "SimpleStrategy", "replication_factor": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraAccess:
    """Access to the cluster and to our keyspace."""

    hosts: Sequence[str]
    port: int = 9042
    keyspace: str = "notifier"
    datacenter: str = "datacenter1"
    """Datacenter whose nodes are queried.

    Conditional writes, and reads at SERIAL, need a quorum of the replicas in all datacenters. Other queries need a
    quorum of this datacenter's replicas.
    """
    replication: Mapping[str, str] = field(default_factory=lambda: _SINGLE_REPLICA)
    """Replication of a new keyspace. An existing keyspace keeps its own."""
    response_timeout: timedelta = RESPONSE_TIMEOUT
    security_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options for the driver's cluster: `auth_provider`, `ssl_context`."""

    def __post_init__(self) -> None:
        """Check the keyspace name: CQL can't bind it, so statements contain it as text."""
        if not _KEYSPACE_NAME.fullmatch(self.keyspace):
            raise BadSetting(
                f"Invalid keyspace name: {self.keyspace!r}. Use at most 48 lower-case letters, digits and _, beginning "
                "with a letter."
            )


class Cluster:
    """Sends statements to Cassandra and waits for the results.

    The first statement connects. A process must fork before that: the threads of a session don't survive a fork.
    """

    def __init__(self, access: CassandraAccess, require_schema: Callable[["Cluster"], None] = lambda _: None) -> None:
        """Create the cluster.

        When a node rejects a statement, `prepare` calls `require_schema`, which raises UnusableEnvironment if the
        keyspace doesn't fit the code.
        """
        self.access = access
        self._require_schema = require_schema
        self._lock = threading.Lock()
        self._pid = 0
        self._session: Session | None = None
        self._prepared: dict[str, PreparedStatement] = {}

    def session(self) -> Session:
        """Return the session of this process in our keyspace.

        Raises StoreUnavailable. Raises UnusableEnvironment for a missing keyspace, missing or rejected credentials, or
        a bad certificate.
        """
        with self._lock:
            if self._session is not None and self._pid != os.getpid():
                raise RuntimeError("The Cassandra session was opened before this process forked.")
            if self._session is None:
                self._session, self._pid = _connect(self.access, self.access.keyspace), os.getpid()
            return self._session

    def create_keyspace(self) -> None:
        """Create the keyspace unless it exists."""
        replication = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in self.access.replication.items())
        session = _connect(self.access, None)
        try:
            _change_schema(
                session,
                f"CREATE KEYSPACE IF NOT EXISTS {self.access.keyspace} WITH replication = {{{replication}}}",
            )
        finally:
            session.cluster.shutdown()

    def change_schema(self, statement: str) -> None:
        """Change the schema, and wait for agreement. After StoreUnavailable the change may have taken effect or not."""
        _change_schema(self.session(), statement)

    def execute(self, statement: str, values: Sequence[object] = (), *, profile: object = PLAIN) -> list[Any]:
        """Run a statement without preparing it. After StoreUnavailable a write may have taken effect or not."""
        session = self.session()
        with translate_errors("A statement failed"):
            return list(session.execute(statement, tuple(values) or None, execution_profile=profile))

    def execute_on(self, host: Any, statement: str) -> list[Any]:
        """Run a statement on this node only, without preparing it."""
        session = self.session()
        with translate_errors("A statement failed"):
            return list(session.execute(statement, host=host))

    def cached_statement(self, statement: str) -> PreparedStatement | None:
        """Return the statement if this process has prepared it. Sends no request."""
        return self._prepared.get(statement)

    def prepare(self, statement: str) -> PreparedStatement:
        """Return the prepared statement. If a node forgets it, the driver prepares it there again.

        Raises as `session` does, what `require_schema` raises, and InvalidRequest for a wrong statement.
        """
        session = self.session()
        if (prepared := self._prepared.get(statement)) is None:
            try:
                with translate_errors("Preparing a statement failed"):
                    prepared = session.prepare(statement)
            except vendor.InvalidRequest:
                self._require_schema(self)  # raises if the schema is outdated; else the statement itself is wrong
                raise
            prepared.is_idempotent = is_read(statement)
            self._prepared[statement] = prepared
        return prepared

    def query(self, statement: str, values: Sequence[object] = (), *, profile: object = PLAIN) -> list[Any]:
        """Return all rows. Raises as `prepare` does. After StoreUnavailable a write may have taken effect or not."""
        with translate_errors("A statement failed"):
            return list(self.session().execute(self.prepare(statement), tuple(values), execution_profile=profile))

    def query_lazily(self, statement: str, values: Sequence[object] = (), *, rows_per_page: int) -> Iterator[Any]:
        """Yield the rows, and fetch one page at a time. Raises as `prepare` does, also between two rows."""
        with translate_errors("A statement failed"):
            bound = self.prepare(statement).bind(tuple(values))
            bound.fetch_size = rows_per_page
            yield from self.session().execute(bound)

    def query_each(
        self, statement: str, parameters: Iterable[Sequence[object]], *, profile: object = PLAIN
    ) -> list[list[Any]]:
        """Run a statement concurrently for each item of `parameters`, and return the results in the same order."""
        return self.query_all(((statement, values) for values in parameters), profile=profile)

    def query_all(
        self,
        queries: Iterable[tuple[str, Sequence[object]]],
        *,
        profile: object = PLAIN,
        max_in_flight: int = MAX_IN_FLIGHT_PER_CALL,
    ) -> list[list[Any]]:
        """Run statements concurrently, and return the results in the same order. Raises as `query` does."""
        session = self.session()
        in_flight: deque[Any] = deque()
        results: list[list[Any]] = []
        with translate_errors("A statement failed"):
            for statement, values in queries:
                if len(in_flight) == max_in_flight:
                    results.append(list(in_flight.popleft().result()))
                prepared = self.prepare(statement)
                in_flight.append(session.execute_async(prepared, tuple(values), execution_profile=profile))
            return results + [list(future.result()) for future in in_flight]

    def compare_and_set(self, statement: str, values: Sequence[object]) -> bool:
        """Run a conditional write, and return whether it was applied.

        After StoreUnavailable the write was applied, will be applied, or never will be. A read at SERIAL shows whether
        it has been applied by then.
        """
        return bool(self.query(statement, values)[0].applied)

    def compare_and_set_each(self, statements: Iterable[tuple[str, Sequence[object]]]) -> list[bool | None]:
        """Run conditional writes concurrently. Return for each write whether it was applied, or None if unknown."""
        return self._run_conditional_writes(
            self.prepare(statement).bind(tuple(values)) for statement, values in statements
        )

    def compare_and_set_batches(
        self, statement: str, groups: Iterable[Sequence[Sequence[object]]]
    ) -> list[bool | None]:
        """Run groups of conditional writes concurrently. Each group is applied as a whole or not at all.

        The writes of a group share a partition, and need only one round of Paxos. Single writes would contend for the
        partition: 120 rows take 50 ms in a group, and 500 ms one by one (measured). Return one result for each group.
        """
        return self.compare_and_set_groups([(statement, values) for values in group] for group in groups)

    def compare_and_set_groups(self, groups: Iterable[Sequence[tuple[str, Sequence[object]]]]) -> list[bool | None]:
        """Do what `compare_and_set_batches` does, for groups with several statements."""
        return self._run_conditional_writes(self._batch(group) for group in groups)

    def _batch(self, group: Sequence[tuple[str, Sequence[object]]]) -> Statement:
        batch = BatchStatement()
        for statement, values in group:
            batch.add(self.prepare(statement), tuple(values))
        return batch

    def _run_conditional_writes(self, statements: Iterable[Statement]) -> list[bool | None]:
        in_flight: deque[Any] = deque()
        applied: list[bool | None] = []
        for bound in statements:
            if len(in_flight) == MAX_IN_FLIGHT_PER_CALL:
                applied.append(_was_applied(in_flight.popleft()))
            in_flight.append(self.session().execute_async(bound))
        return applied + [_was_applied(future) for future in in_flight]

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            self._prepared.clear()
        if session is not None and self._pid == os.getpid():
            session.cluster.shutdown()


def _was_applied(future: Any) -> bool | None:
    try:
        with translate_errors("A statement failed"):
            return bool(future.result().one().applied)
    except StoreUnavailable:
        return None


def security_options(*, user: str, password: str, ca_file: str) -> Mapping[str, Any]:
    """Return the driver options for credentials and TLS. Raises BadSetting.

    `ca_file` has the certificate of the authority that issues the nodes' certificates. A node's certificate must name
    the node's address.
    """
    options: dict[str, Any] = {}
    if user:
        options["auth_provider"] = PlainTextAuthProvider(user, password)
    if ca_file:
        try:
            options["ssl_context"] = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"Can't read Cassandra's CA certificate {ca_file}: {error}") from error
    return options


def _connect(access: CassandraAccess, keyspace: str | None) -> Session:
    driver = Driver(
        connection_class=CassandraConnection,
        contact_points=list(access.hosts),
        port=access.port,
        protocol_version=PROTOCOL_VERSION,
        execution_profiles={
            PLAIN: _profile(access, vendor.ConsistencyLevel.LOCAL_QUORUM),
            SERIAL: _profile(access, vendor.ConsistencyLevel.SERIAL),
        },
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_INTERVAL, max_attempts=None),
        idle_heartbeat_interval=HEARTBEAT_INTERVAL,
        idle_heartbeat_timeout=HEARTBEAT_TIMEOUT,
        compression=False,  # the bulk writer inserts encoded rows into a message, which must not be compressed
        connect_timeout=access.response_timeout.total_seconds(),
        control_connection_timeout=access.response_timeout.total_seconds(),
        **access.security_options,
    )
    try:
        with translate_errors("Can't connect to Cassandra"):
            session = driver.connect()
            if keyspace is not None:
                session.set_keyspace(keyspace)
            return session
    except StoreUnavailable as error:
        with suppress(Exception):
            driver.shutdown()
        cause = error.__cause__
        raise (classify_connection_error(cause) if isinstance(cause, NoHostAvailable) else error) from cause
    except vendor.InvalidRequest as error:
        driver.shutdown()
        raise UnusableEnvironment(
            f"Cassandra has no keyspace {keyspace}; run `notifier migrate` to create it."
        ) from error
    except BaseException:
        # Without a shutdown the driver's threads would never stop trying to connect.
        with suppress(Exception):
            driver.shutdown()
        raise


def _profile(access: CassandraAccess, consistency: int) -> ExecutionProfile:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=access.datacenter)),
        retry_policy=NextHostRetryPolicy(),
        consistency_level=consistency,
        serial_consistency_level=vendor.ConsistencyLevel.SERIAL,
        request_timeout=access.response_timeout.total_seconds(),
        row_factory=named_rows,
        speculative_execution_policy=NoSpeculativeExecutionPolicy(),
    )


def _change_schema(session: Session, statement: str) -> None:
    with translate_errors("Changing the schema failed"):
        future = session.execute_async(statement, timeout=SCHEMA_CHANGE_TIMEOUT.total_seconds())
        future.result()
    if not future.is_schema_agreed:
        raise StoreUnavailable("Not all nodes have agreed on the schema change.")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
