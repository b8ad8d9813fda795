"""Stored values are read as written, or are poison."""

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest

from notifier.codec import pack, pack_snapshot, unpack, unpack_snapshot
from notifier.domain.audience.bitmap import from_offsets, no_members
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.events_and_mentions import Event, Mention
from notifier.domain.bursts.sequencer import Head, advance
from notifier.domain.delivery.plan import FollowerCounts, Plan, make_plan
from notifier.domain.errors import Poison
from notifier.domain.upstream.validation import checked_mention_event
from tests.support.domain_examples import EVE, NOON, OF_NOVA, SELF_NOVA, burst, mention, numbered

PARIS = ZoneInfo("Europe/Paris")

EVENT = checked_mention_event(
    source="tweets",
    id="e1",
    tweet="t1",
    author="ada",
    mentioned=("nova", "Ünï"),
    text="hello 🎉",
    protected=False,
    happened_at=NOON.astimezone(PARIS),
    now=NOON + timedelta(microseconds=1),
)
HEAD = advance(
    Head.empty(OF_NOVA),
    numbered(mention(1), mention(2, protected=True)),
    sequenced_events=(),
    now=NOON,
    nonce="n",
    collapse_override=None,
)
SNAPSHOT = AudienceSnapshot(
    shard=7,
    opened_at=NOON,
    tiers=dict(zip(TIERS, (from_offsets([1]), from_offsets(range(9_000)), no_members()), strict=True)),
    to_alert=from_offsets([1, 5]),
    dormant_count=3,
    suppressed_counts={"muted": 2},
)


@pytest.mark.parametrize(
    "value",
    [
        EVENT,
        mention(),
        HEAD,
        Head.empty(SELF_NOVA),
        burst(restricted_to=EVE),
        make_plan(burst(), FollowerCounts(total=9, by_shard=[4, 0, 5])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_stored_value_is_read_as_written(value: Event | Mention | Head | Burst | Plan) -> None:
    assert unpack(type(value), pack(value)) == value


def test_time_is_stored_in_utc_from_any_zone() -> None:
    read = unpack(Event, pack(EVENT))
    assert (read.happened_at, read.happened_at.utcoffset()) == (NOON, timedelta(0))
    assert isinstance(read.happened_at, datetime)


def test_snapshot_is_read_as_written() -> None:
    read = unpack_snapshot(7, pack_snapshot(SNAPSHOT))
    assert [bits.tobytes() for bits in read.tiers.values()] == [bits.tobytes() for bits in SNAPSHOT.tiers.values()]
    assert read.to_alert.tobytes() == SNAPSHOT.to_alert.tobytes()
    assert (read.shard, read.dormant_count, read.suppressed_counts) == (7, 3, {"muted": 2})
    assert read.counts() == SNAPSHOT.counts()


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xc1",
        b"\x00",
        pack(EVENT)[:-1],
        pack(EVENT) + b"\x00",
        b"\x81\xa2id\x82\xa6source\xa1\xff",
        pack(burst()),
    ],
)
def test_invalid_event_bytes_are_poison(blob: bytes) -> None:
    with pytest.raises(Poison):
        unpack(Event, blob)


@pytest.mark.parametrize(
    "value",
    [
        [[b"N", b"N"], b"N", 0, {}],
        [[b"N", b"N", b"N", b"N"], b"N", 0, {}],
        [[b"N", b"N", b"Q"], b"N", 0, {}],
        [[b"N", b"N", b"N"], b"R", 0, {}],
    ],
)
def test_snapshot_with_wrong_tiers_or_bitmap_is_poison(value: object) -> None:
    with pytest.raises(Poison):
        unpack_snapshot(0, pack(value))


def test_heads_stored_before_the_restricted_budget_are_read() -> None:
    head = advance(
        Head.empty(OF_NOVA), numbered(mention(protected=True), mention(2)), sequenced_events=(), now=NOON, nonce="n"
    )
    assert unpack(Head, pack(head)) == head
    plain = msgspec.msgpack.decode(pack(head))
    del plain["restricted_budget"]
    for old in (plain["open"], *plain["outbox"]):
        del old["pull_only"]
    assert unpack(Head, msgspec.msgpack.encode(plain)) == replace(head, restricted_budget=None)
