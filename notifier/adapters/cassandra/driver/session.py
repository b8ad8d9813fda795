"""One session to Cassandra a process, with everything said that the driver would guess; its errors become ours."""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any

import cassandra as vendor
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

from notifier.adapters.cassandra.driver.errors import refusal, translated
from notifier.domain.errors import BadSetting, Environment, StoreUnavailable

# When another node is asked: reads alone, which may be asked twice; a write whose answer is lost isn't repeated.

NODES = 2
"""Asked besides the first."""


_READ = re.compile(r"(\s|--[^\n]*\n)*SELECT\s", re.IGNORECASE)


class NextNode(FallthroughRetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """Only once the first one has failed: of two that are asked side by side the driver takes both answers, and a late
    page of one for the next page of the other.

    A node whose connection broke, or that knows too few replicas, has no say in what others know."""

    def on_request_error(self, query: Any, consistency: Any, error: Any, retry_num: int) -> tuple[int, Any]:
        return _next(query, retry_num)

    def on_unavailable(
        self, query: Any, consistency: Any, required_replicas: int, alive_replicas: int, retry_num: int
    ) -> tuple[int, Any]:
        return _next(query, retry_num)


def is_read(statement: str) -> bool:
    return _READ.match(statement) is not None


def _next(query: Any, retry_num: int) -> tuple[int, Any]:
    again = getattr(query, "is_idempotent", False) and retry_num < NODES
    return (RetryPolicy.RETRY_NEXT_HOST if again else RetryPolicy.RETHROW), None


# The time by which an answer must have come; once it has, nothing keeps it any more.
#
# The driver's own timer holds its question until the time is over, and the question its answer: seconds of bitmaps,
# in a ring that only the garbage collector breaks.


class DriverDeadline:
    """What a question holds of its timer."""

    def __init__(self, passed: Callable[[], object]) -> None:
        self.timer: Any = None
        self._passed: Callable[[], object] | None = passed

    def __call__(self) -> None:
        if (passed := self._passed) is not None:
            passed()

    def cancel(self) -> None:
        timer, self.timer, self._passed = self.timer, None, None
        if timer is not None:
            timer.cancel()


class CassandraConnection(Driver.connection_class):  # type: ignore[misc]  # the driver ships no types, and chooses its event loop
    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> DriverDeadline:
        deadline = DriverDeadline(callback)
        deadline.timer = super().create_timer(timeout, deadline)
        return deadline


# Rows by the names of their columns. The driver makes a class for every answer, which costs more than most of them.


def rows(columns: Sequence[str], found: Sequence[Sequence[object]]) -> list[Any]:
    """The factory of a session's profiles."""
    return list(map(_named(tuple(columns))._make, found))


@lru_cache(maxsize=512)
def _named(columns: tuple[str, ...]) -> Any:
    """The driver's own class, which has rules for names that Python doesn't take."""
    [row] = named_tuple_factory(columns, [columns])
    return type(row)


PROTOCOL = vendor.ProtocolVersion.V4
"""Else it is found out by connections that are refused. Version 5 adds checksums of its own to those of TCP, and TLS,
and costs the node a tenth more for a row."""
PLAIN = EXEC_PROFILE_DEFAULT
"""The profile that reads what a quorum has."""
SERIAL = "serial"
"""The profile that reads what conditional writes decided, and finishes those that were cut off."""
ANSWERS_WITHIN = timedelta(seconds=5)
SCHEMA_WITHIN = timedelta(seconds=30)
"""A change of the schema waits for all nodes to know it."""
LOOKS_AGAIN_AFTER = 1.0
"""Seconds. The driver's own pauses grow to ten minutes: a node that was away so long would stay unused as long."""
BEATS_EVERY, SILENT_FOR = 2.0, 3.0
"""Seconds: a node that hangs is left out after five of them; by the driver's own measure it is after a minute."""
AT_ONCE = 128
"""Questions of one call on their way: more would only wait in the node's line."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_ONE_COPY = {"class": "SimpleStrategy", "replication_factor": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraAccess:
    """Where it is, and which keyspace is ours."""

    hosts: Sequence[str]
    port: int = 9042
    keyspace: str = "notifier"
    datacenter: str = "datacenter1"
    """Whose nodes are asked, and whose quorum is enough."""
    replication: Mapping[str, str] = field(default_factory=lambda: _ONE_COPY)
    """Of a keyspace that is made anew; one that exists keeps what its operators gave it."""
    answers_within: timedelta = ANSWERS_WITHIN
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As cassandra-driver's cluster calls it (`auth_provider`, `ssl_context`); empty: plain text."""

    def __post_init__(self) -> None:
        """The keyspace becomes a part of statements, where nothing can be bound."""
        if not _NAME.fullmatch(self.keyspace):
            raise BadSetting(f"A keyspace is named by small letters, digits and _, not {self.keyspace!r}.")


class Cluster:
    """Nothing is connected before the first use, which is after the fork: a session's threads don't survive one."""

    def __init__(self, access: CassandraAccess, require: Callable[["Cluster"], None] = lambda _: None) -> None:
        """`require` raises Environment where the keyspace isn't what the code needs; it is asked when that shows."""
        self.access = access
        self._require = require
        self._lock = threading.Lock()
        self._pid = 0
        self._session: Session | None = None
        self._prepared: dict[str, PreparedStatement] = {}

    def session(self) -> Session:
        """This process's own, in our keyspace. Raises StoreUnavailable, and Environment without a keyspace."""
        with self._lock:
            if self._session is not None and self._pid != os.getpid():
                raise RuntimeError("The session to Cassandra was open when the process forked.")
            if self._session is None:
                self._session, self._pid = _connected(self.access, self.access.keyspace), os.getpid()
            return self._session

    def create(self) -> None:
        """The keyspace, unless it exists."""
        copies = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in self.access.replication.items())
        session = _connected(self.access, None)
        try:
            _changed(
                session,
                f"CREATE KEYSPACE IF NOT EXISTS {self.access.keyspace} WITH replication = {{{copies}}}",
            )
        finally:
            session.cluster.shutdown()

    def change(self, statement: str) -> None:
        """The schema, on all nodes when it returns. Raises StoreUnavailable: then it may be changed, or not."""
        _changed(self.session(), statement)

    def execute(
        self, statement: str, values: Sequence[object] = (), *, profile: object = EXEC_PROFILE_DEFAULT
    ) -> list[Any]:
        """Of a statement that is rare: others are prepared. Raises StoreUnavailable: it may have had its effect."""
        session = self.session()
        with translated("A statement failed"):
            return list(session.execute(statement, tuple(values) or None, execution_profile=profile))

    def execute_on(self, host: Any, statement: str) -> list[Any]:
        """The same on this node and no other. Raises as `execute` does."""
        session = self.session()
        with translated("A statement failed"):
            return list(session.execute(statement, host=host))

    def remembered(self, statement: str) -> PreparedStatement | None:
        """What was prepared before: it costs no question."""
        return self._prepared.get(statement)

    def prepared(self, statement: str) -> PreparedStatement:
        """Once a process; a node that has forgotten it is told again by the driver. Raises StoreUnavailable, and what
        `require` raises."""
        session = self.session()
        if (found := self._prepared.get(statement)) is None:
            try:
                with translated("A statement was not prepared"):
                    found = self._prepared[statement] = session.prepare(statement)
            except vendor.InvalidRequest:
                self._require(self)  # what the schema lacks: then the statement is no mistake
                raise
            found.is_idempotent = is_read(statement)
        return found

    def ask(
        self, statement: str, values: Sequence[object] = (), *, profile: object = EXEC_PROFILE_DEFAULT
    ) -> list[Any]:
        """All rows, page by page. Raises StoreUnavailable: then a write may have had its effect, or not."""
        with translated("A statement failed"):
            return list(self.session().execute(self.prepared(statement), tuple(values), execution_profile=profile))

    def each(self, statement: str, values: Sequence[object] = (), *, page: int) -> Iterator[Any]:
        """Row by row; the next page is fetched when one is used up, so that memory doesn't depend on how many there
        are. Raises StoreUnavailable, also in the middle."""
        with translated("A statement failed"):
            bound = self.prepared(statement).bind(tuple(values))
            bound.fetch_size = page
            yield from self.session().execute(bound)

    def ask_each(
        self, statement: str, each: Iterable[Sequence[object]], *, profile: object = EXEC_PROFILE_DEFAULT
    ) -> list[list[Any]]:
        """One question for each of the values, side by side; the answers in their order. Raises as `ask` does."""
        return self.ask_all(((statement, values) for values in each), profile=profile)

    def ask_all(
        self,
        questions: Iterable[tuple[str, Sequence[object]]],
        *,
        profile: object = EXEC_PROFILE_DEFAULT,
        at_once: int = AT_ONCE,
    ) -> list[list[Any]]:
        """Questions of any kind side by side, as `ask_each`."""
        session = self.session()
        going: deque[Any] = deque()
        found: list[list[Any]] = []
        with translated("A statement failed"):
            for statement, values in questions:
                if len(going) == at_once:
                    found.append(list(going.popleft().result()))
                prepared = self.prepared(statement)
                going.append(session.execute_async(prepared, tuple(values), execution_profile=profile))
            return found + [list(future.result()) for future in going]

    def decide(self, statement: str, values: Sequence[object]) -> bool:
        """Whether a conditional write was applied. Raises StoreUnavailable: then it was, is, will be, or never; a read
        at SERIAL tells which."""
        return bool(self.ask(statement, values)[0].applied)

    def decide_each(self, each: Iterable[tuple[str, Sequence[object]]]) -> list[bool | None]:
        """Conditional writes side by side: whether each was applied, in their order; None where the answer was lost.

        Raises StoreUnavailable when none could be asked.
        """
        return self._decided(self.prepared(statement).bind(tuple(values)) for statement, values in each)

    def decide_together(self, statement: str, groups: Iterable[Sequence[Sequence[object]]]) -> list[bool | None]:
        """The same of groups of writes, each of one partition: all of a group are applied, or none.

        One round of Paxos instead of one a row, which on one partition would stand in each other's way: of 120 rows,
        50 ms instead of 500, measured.
        """
        return self.decide_groups([(statement, values) for values in group] for group in groups)

    def decide_groups(self, groups: Iterable[Sequence[tuple[str, Sequence[object]]]]) -> list[bool | None]:
        """The same of groups of unlike writes."""
        return self._decided(self._batch(group) for group in groups)

    def _batch(self, group: Sequence[tuple[str, Sequence[object]]]) -> Statement:
        batch = BatchStatement()
        for statement, values in group:
            batch.add(self.prepared(statement), tuple(values))
        return batch

    def _decided(self, each: Iterable[Statement]) -> list[bool | None]:
        going: deque[Any] = deque()
        decided: list[bool | None] = []
        for one in each:
            if len(going) == AT_ONCE:
                decided.append(_applied(going.popleft()))
            going.append(self.session().execute_async(one))
        return decided + [_applied(future) for future in going]

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            self._prepared.clear()
        if session is not None and self._pid == os.getpid():
            session.cluster.shutdown()


def _applied(future: Any) -> bool | None:
    try:
        with translated("A statement failed"):
            return bool(future.result().one().applied)
    except StoreUnavailable:
        return None


def _connected(access: CassandraAccess, keyspace: str | None) -> Session:
    driver = Driver(
        connection_class=CassandraConnection,
        contact_points=list(access.hosts),
        port=access.port,
        protocol_version=PROTOCOL,
        execution_profiles={
            EXEC_PROFILE_DEFAULT: _profile(access, vendor.ConsistencyLevel.LOCAL_QUORUM),
            SERIAL: _profile(access, vendor.ConsistencyLevel.SERIAL),
        },
        reconnection_policy=ConstantReconnectionPolicy(LOOKS_AGAIN_AFTER, max_attempts=None),
        idle_heartbeat_interval=BEATS_EVERY,
        idle_heartbeat_timeout=SILENT_FOR,
        compression=False,  # whatever is installed: rows are spliced into a message's bytes, which have to be plain
        connect_timeout=access.answers_within.total_seconds(),
        control_connection_timeout=access.answers_within.total_seconds(),
        **access.security,
    )
    try:
        with translated("It can't be reached"):
            session = driver.connect()
            if keyspace is not None:
                session.set_keyspace(keyspace)
            return session
    except StoreUnavailable as error:
        with suppress(Exception):
            driver.shutdown()
        cause = error.__cause__
        raise (refusal(cause) if isinstance(cause, NoHostAvailable) else error) from cause
    except vendor.InvalidRequest as error:
        driver.shutdown()
        raise Environment(f"There is no keyspace {keyspace} in Cassandra; `notifier migrate` makes it.") from error
    except BaseException:
        # Else its threads would go on looking for the nodes.
        with suppress(Exception):
            driver.shutdown()
        raise


def _profile(access: CassandraAccess, consistency: int) -> ExecutionProfile:
    """No retries but of reads: the driver would repeat what timed out without knowing whether it had its effect."""
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=access.datacenter)),
        retry_policy=NextNode(),
        consistency_level=consistency,
        serial_consistency_level=vendor.ConsistencyLevel.SERIAL,
        request_timeout=access.answers_within.total_seconds(),
        row_factory=rows,
        speculative_execution_policy=NoSpeculativeExecutionPolicy(),
    )


def _changed(session: Session, statement: str) -> None:
    with translated("The schema was not changed"):
        future = session.execute_async(statement, timeout=SCHEMA_WITHIN.total_seconds())
        future.result()
    if not future.is_schema_agreed:
        raise StoreUnavailable("Not all nodes know of the change of the schema.")


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"
