"""Messages of inbox rows: each row once, and no more in one than a node takes without a warning."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.cassandra.bulk.encoding import MESSAGE_BYTES, PARTITIONS, STORED_BYTES, RowBatch, messages
from notifier.domain.audience.bitmap import Bits, everybody, from_offsets
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, SHARD_RANGES, InboxRows, cut
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.properties.crowds import BITMAPS
from tests.support.examples import NOON

QUERY_ID = bytes(range(16))
NAMES = st.integers(1, 40).map(lambda length: "n" * length)


def rows(bits: Bits, name: str = "nova", *, shard: int = 0) -> InboxRows:
    key = BurstKey(Subject(Kind.MENTION, UserId(name)), 7)
    return cut(bits, burst=key, opened_at=NOON, tier=Tier.P1, shard=shard)


def made(of: InboxRows) -> list[RowBatch]:
    return list(messages(of, 60, QUERY_ID))


def counted(message: RowBatch) -> int:
    """As the node counts."""
    return message.size + STORED_BYTES * len(message)


@given(BITMAPS, NAMES, st.integers(0, 1_525))
@settings(max_examples=40)
def test_messages_have_every_row_once_in_order(bits: Bits, name: str, shard: int) -> None:
    of = rows(bits, name, shard=shard)
    found = made(of)
    values = [value for message in found for value in message.values()]
    assert [value[0] for value in values] == of.ranges
    assert [value[-2] for value in values] == of.members
    assert sum(map(len, found)) == of.written
    assert all(message.size == len(message.body) for message in found)


@given(BITMAPS, NAMES)
@settings(max_examples=40)
def test_message_stays_within_the_limits_and_is_as_full_as_they_allow(bits: Bits, name: str) -> None:
    found = made(rows(bits, name))
    for message in found:
        assert 0 < len(message) <= PARTITIONS
        assert counted(message) <= MESSAGE_BYTES
    for message, following in pairwise(found):
        assert len(message) == PARTITIONS or counted(message) + counted(following.head()) > MESSAGE_BYTES


def test_nobody_needs_no_message() -> None:
    assert made(rows(from_offsets([]))) == []


def test_row_above_the_limit_goes_alone() -> None:
    found = made(rows(everybody(), "n" * MESSAGE_BYTES))
    assert [len(message) for message in found] == [1] * SHARD_RANGES


def test_head_is_the_first_row_alone() -> None:
    first, second = made(rows(from_offsets(range(3, 12 * RANGE_MEMBERS, RANGE_MEMBERS))))
    assert (len(first), len(second)) == (PARTITIONS, 2)
    for message in (first, second):
        head = message.head()
        assert (list(head.values()), head.routing_key) == ([next(message.values())], message.routing_key)
        assert message.body.startswith(head.body)
