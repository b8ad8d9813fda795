"""When another node is asked: reads alone, which may be asked twice; a write whose answer is lost isn't repeated."""

import re
from typing import Any

from cassandra.policies import ConstantSpeculativeExecutionPolicy, FallthroughRetryPolicy, RetryPolicy

NODES = 2
"""Asked besides the first."""
AFTER = 0.3
"""Seconds without an answer, after which the next node is asked beside it: a node that died answers never, and nobody
knows of it for some seconds. A healthy one needs a hundredth of that."""


_READ = re.compile(r"(\s|--[^\n]*\n)*SELECT\s", re.IGNORECASE)


class NextNode(FallthroughRetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """A node whose connection broke, or that knows too few replicas, has no say in what others know."""

    def on_request_error(self, query: Any, consistency: Any, error: Any, retry_num: int) -> tuple[int, Any]:
        return _next(query, retry_num)

    def on_unavailable(
        self, query: Any, consistency: Any, required_replicas: int, alive_replicas: int, retry_num: int
    ) -> tuple[int, Any]:
        return _next(query, retry_num)


def soon() -> ConstantSpeculativeExecutionPolicy:
    return ConstantSpeculativeExecutionPolicy(delay=AFTER, max_attempts=NODES)


def is_read(statement: str) -> bool:
    return _READ.match(statement) is not None


def _next(query: Any, retry_num: int) -> tuple[int, Any]:
    again = getattr(query, "is_idempotent", False) and retry_num < NODES
    return (RetryPolicy.RETRY_NEXT_HOST if again else RetryPolicy.RETHROW), None
