"""Inbox rows are encoded into few messages, as full as the limits allow."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.adapters.cassandra.bulk.encoding import (
    MAX_MESSAGE_BYTES,
    MAX_ROWS_PER_MESSAGE,
    ROW_OVERHEAD_BYTES,
    RowMessage,
    divide_into_messages,
)
from notifier.domain.audience.bitmap import Bits, all_members, from_offsets
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, SHARD_RANGES, InboxRows, cut_inbox_rows
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from tests.properties.random_member_sets import BITMAPS
from tests.support.domain_examples import NOON

QUERY_ID = bytes(range(16))
TTL_SECONDS = 60
NAMES = st.integers(1, 40).map(lambda length: "n" * length)


def inbox_rows(bits: Bits, name: str = "nova", *, shard: int = 0) -> InboxRows:
    key = BurstKey(Subject(Kind.MENTION, UserId(name)), 7)
    return cut_inbox_rows(bits, burst=key, opened_at=NOON, tier=Tier.P1, shard=shard)


def encode(rows: InboxRows) -> list[RowMessage]:
    return list(divide_into_messages(rows, TTL_SECONDS, QUERY_ID))


def counted_size(message: RowMessage) -> int:
    """Return the message's size as the node counts it."""
    return message.byte_count + ROW_OVERHEAD_BYTES * len(message)


@given(BITMAPS, NAMES, st.integers(0, 1_525))
@settings(max_examples=40)
def test_messages_contain_every_row_once_in_order(bits: Bits, name: str, shard: int) -> None:
    rows = inbox_rows(bits, name, shard=shard)
    messages = encode(rows)
    values = [value for message in messages for value in message.values()]
    assert [value[0] for value in values] == rows.ranges
    assert [value[-2] for value in values] == rows.members
    assert sum(map(len, messages)) == rows.row_count
    assert all(message.byte_count == len(message.joined_rows) for message in messages)


@given(BITMAPS, NAMES)
@settings(max_examples=40)
def test_messages_are_as_full_as_the_limits_allow(bits: Bits, name: str) -> None:
    messages = encode(inbox_rows(bits, name))
    for message in messages:
        assert 0 < len(message) <= MAX_ROWS_PER_MESSAGE
        assert counted_size(message) <= MAX_MESSAGE_BYTES
    for message, following in pairwise(messages):
        assert (
            len(message) == MAX_ROWS_PER_MESSAGE
            or counted_size(message) + counted_size(following.first_row()) > MAX_MESSAGE_BYTES
        )


def test_empty_audience_needs_no_message() -> None:
    assert encode(inbox_rows(from_offsets([]))) == []


def test_row_above_size_limit_is_sent_alone() -> None:
    messages = encode(inbox_rows(all_members(), "n" * MAX_MESSAGE_BYTES))
    assert [len(message) for message in messages] == [1] * SHARD_RANGES


def test_first_row_of_a_message_can_be_sent_alone() -> None:
    first, second = encode(inbox_rows(from_offsets(range(3, 12 * RANGE_MEMBERS, RANGE_MEMBERS))))
    assert (len(first), len(second)) == (MAX_ROWS_PER_MESSAGE, 2)
    for message in (first, second):
        first_row = message.first_row()
        assert (list(first_row.values()), first_row.routing_key) == ([next(message.values())], message.routing_key)
        assert message.joined_rows.startswith(first_row.joined_rows)
