"""Retry policy: which statements are retried on another node, and how often."""

from types import SimpleNamespace

import pytest
from cassandra import ConsistencyLevel
from cassandra.policies import RetryPolicy

from notifier.adapters.cassandra.driver.session import MAX_READ_RETRIES, NextHostRetryPolicy, is_read

QUORUM = ConsistencyLevel.LOCAL_QUORUM
READ = SimpleNamespace(is_idempotent=True)
WRITE = SimpleNamespace(is_idempotent=False)


def test_only_reads_are_retried_on_another_node() -> None:
    policy = NextHostRetryPolicy()
    for n in range(MAX_READ_RETRIES):
        assert policy.on_request_error(READ, QUORUM, OSError(), n)[0] == RetryPolicy.RETRY_NEXT_HOST
        assert policy.on_unavailable(READ, QUORUM, 2, 1, n)[0] == RetryPolicy.RETRY_NEXT_HOST
    assert policy.on_request_error(READ, QUORUM, OSError(), MAX_READ_RETRIES)[0] == RetryPolicy.RETHROW
    assert policy.on_request_error(WRITE, QUORUM, OSError(), 0)[0] == RetryPolicy.RETHROW
    assert policy.on_unavailable(WRITE, QUORUM, 2, 1, 0)[0] == RetryPolicy.RETHROW


def test_timeouts_are_never_retried() -> None:
    assert NextHostRetryPolicy().on_read_timeout(READ, QUORUM, 2, 1, False, 0)[0] == RetryPolicy.RETHROW
    assert NextHostRetryPolicy().on_write_timeout(WRITE, QUORUM, "SIMPLE", 2, 1, 0)[0] == RetryPolicy.RETHROW


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("SELECT a FROM b", True),
        ("\nselect a FROM b", True),
        ("-- What it is for.\n--\n  SELECT a FROM b", True),
        ("-- SELECT nothing.\nDELETE FROM b", False),
        ("INSERT INTO b (a) VALUES (?)", False),
        ("UPDATE b SET a = ? IF a = ?", False),
        ("BEGIN BATCH INSERT INTO b (a) VALUES (?) APPLY BATCH", False),
    ],
)
def test_only_select_statements_are_reads(statement: str, read: bool) -> None:
    assert is_read(statement) == read
