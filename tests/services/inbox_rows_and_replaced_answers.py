"""Rows for tests on a real node, and a protocol handler that replaces answers."""

from typing import Any, ClassVar

import numpy as np
from cassandra import ConsistencyLevel, WriteType
from cassandra.protocol import (
    RESULT_KIND_VOID,
    ErrorMessage,
    OverloadedErrorMessage,
    PreparedQueryNotFound,
    ResultMessage,
    WriteTimeoutErrorMessage,
)

from notifier.adapters.cassandra import (
    Cluster,
)
from notifier.adapters.cassandra.bulk.encoding import PreencodedBatchProtocol
from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_flags
from notifier.domain.audience.inbox_rows import MIN_BITMAP_MEMBERS, RANGE_MEMBERS, InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock_and_nonces import START

KEY = BurstKey(NOVA, 1)
COUNT_ROWS = "SELECT count(*) FROM inbox"
MIXED = MIN_BITMAP_MEMBERS / RANGE_MEMBERS
"""Share of a range's members at which about half of the rows are lists, and half bitmaps."""


def rows(share: float, *, key: BurstKey = KEY, shard: int = 0) -> InboxRows:
    rng = np.random.default_rng(key.seq)
    bits = from_flags(rng.random(SHARD_MEMBERS) < share)
    return cut_inbox_rows(bits, burst=key, opened_at=START, tier=Tier.P1, shard=shard)


def stored_row_count(cluster: Cluster) -> int:
    return int(cluster.execute(COUNT_ROWS)[0][0])


BUSY = [
    OverloadedErrorMessage(code=0x1001, message="on purpose", info=None),
    WriteTimeoutErrorMessage(
        code=0x1100,
        message="on purpose",
        info={
            "consistency": ConsistencyLevel.LOCAL_QUORUM,
            "received_responses": 0,
            "required_responses": 1,
            "write_type": WriteType.UNLOGGED_BATCH,
        },
    ),
]


class ReplacedAnswers(PreencodedBatchProtocol):
    """Records the answers of the node to writes, and replaces some. Each test makes a subclass."""

    error: ErrorMessage
    refusals = 0
    """Number of answers still to be replaced."""
    forgotten = 0
    """Number of answers that report an unknown prepared statement."""
    warned: ClassVar[set[str]] = set()
    """Warnings of the node."""

    @classmethod
    def decode_message(cls, *args: Any, **options: Any) -> Any:
        response = super().decode_message(*args, **options)
        cls.forgotten += isinstance(response, PreparedQueryNotFound)
        cls.warned.update(response.warnings or ())
        if cls.refusals and isinstance(response, ResultMessage) and response.kind == RESULT_KIND_VOID:
            cls.refusals -= 1
            error = type(cls.error)(cls.error.code, cls.error.message, cls.error.info)
            error.stream_id, error.trace_id, error.custom_payload = response.stream_id, None, None
            error.warnings = None
            return error
        return response


def handler_with(**facts: object) -> type[ReplacedAnswers]:
    return type("Handler", (ReplacedAnswers,), facts)
