"""A cluster whose answers are lost, after the statement took effect or before; and a keyspace with nothing in it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, WriteTimeout, WriteType

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.devkit.engines.maven import missing
from tests.support.fakes.clock import ManualClock
from tests.support.keyspace import emptied, keyspace

ON_ENGINES = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]
LOST = [
    OperationTimedOut(),
    WriteTimeout(
        "", consistency=ConsistencyLevel.SERIAL, required_responses=1, received_responses=0, write_type=WriteType.CAS
    ),
]


@pytest.fixture(scope="module")
def made(cassandra: CassandraAccess) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(made: Cluster) -> Cluster:
    return emptied(made)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Losing(Cluster):
    """Loses the answer of the next statements that are conditional, or that name a table; they take effect, or not."""

    def __init__(
        self,
        cluster: Cluster,
        error: Exception,
        *,
        done: bool,
        at: str = " IF ",
        times: int = 1,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(cluster.access)
        self.meanwhile = meanwhile
        """What others do just before it takes effect."""
        self.shared = cluster
        self.error, self.done, self.at, self.times = error, done, at, times

    def session(self) -> Any:
        return LosingSession(self)

    def prepared(self, statement: str) -> Any:
        return self.shared.prepared(statement)

    def loses(self, statement: Any) -> bool:
        prepared = getattr(statement, "prepared_statement", statement)
        text = getattr(prepared, "query_string", "BATCH IF EACH")  # ours are all conditional
        if self.times == 0 or self.at not in " ".join(text.split()):
            return False
        self.times -= 1
        return True


class LosingSession:
    def __init__(self, losing: Losing) -> None:
        self.losing = losing
        self.real = losing.shared.session()

    def execute_async(self, statement: Any, *values: Any, **options: Any) -> Any:
        if not self.losing.loses(statement):
            return self.real.execute_async(statement, *values, **options)
        self.losing.meanwhile()
        if self.losing.done:
            self.real.execute_async(statement, *values, **options).result()
        return LostAnswer(self.losing.error)

    def execute(self, statement: Any, *values: Any, **options: Any) -> Any:
        return self.execute_async(statement, *values, **options).result()


class LostAnswer:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def result(self) -> Any:
        raise self.error
