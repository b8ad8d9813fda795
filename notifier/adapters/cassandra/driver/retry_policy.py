"""When another node is asked: reads alone, which may be asked twice; a write whose answer is lost isn't repeated."""

import re
from typing import Any

from cassandra.policies import FallthroughRetryPolicy, RetryPolicy

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
