"""A Cassandra cluster that loses responses."""

from collections.abc import Callable
from typing import Any

from cassandra import ConsistencyLevel, OperationTimedOut, WriteTimeout, WriteType

from notifier.adapters.cassandra import Cluster

LOST = [
    OperationTimedOut(),
    WriteTimeout(
        "", consistency=ConsistencyLevel.SERIAL, required_responses=1, received_responses=0, write_type=WriteType.CAS
    ),
]


class LossyCluster(Cluster):
    """Loses the response to the next statements that match `at`, conditional ones by default.

    With `done` they take effect.
    """

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
        """Called just before the statement takes effect."""
        self.shared = cluster
        self.error, self.done, self.at, self.times = error, done, at, times

    def session(self) -> Any:
        return LossySession(self)

    def prepare(self, statement: str) -> Any:
        return self.shared.prepare(statement)

    def loses(self, statement: Any) -> bool:
        prepared = getattr(statement, "prepared_statement", statement)
        text = getattr(prepared, "query_string", "BATCH IF EACH")  # all batches of the product are conditional
        if self.times == 0 or self.at not in " ".join(text.split()):
            return False
        self.times -= 1
        return True


class LossySession:
    def __init__(self, losing: LossyCluster) -> None:
        self.losing = losing
        self.real = losing.shared.session()

    def execute_async(self, statement: Any, *values: Any, **options: Any) -> Any:
        if not self.losing.loses(statement):
            return self.real.execute_async(statement, *values, **options)
        self.losing.meanwhile()
        if self.losing.done:
            self.real.execute_async(statement, *values, **options).result()
        return LostResponse(self.losing.error)

    def execute(self, statement: Any, *values: Any, **options: Any) -> Any:
        return self.execute_async(statement, *values, **options).result()


class LostResponse:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def result(self) -> Any:
        raise self.error
