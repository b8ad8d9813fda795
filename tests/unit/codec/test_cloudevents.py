"""Upstream events: valid ones are read, invalid ones refused with a reason."""

import json
import sys
import unicodedata
from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.codec import UpstreamEvent, read_batch, read_event
from notifier.codec.cloudevents import MAX_BATCH_EVENTS, MAX_EVENT_BYTES
from notifier.domain.audience.account_flags import AccountChange, Flag
from notifier.domain.audience.activity import Sighting
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.errors import BadEvent, NotifierError, TooLarge
from notifier.domain.upstream.graph_stream_records import FollowAction, FollowChange
from notifier.domain.upstream.validation import checked_mention_event, id_problem
from notifier.domain.users.user_blocks import UserBlockChange
from tests.support.domain_examples import NOON

DATA: Mapping[str, object] = {"tweet": "t1", "author": "ada", "mentions": ["nova"], "text": "hi", "protected": True}


def raw(*, data: Mapping[str, object] | None = None, **fields: object) -> dict[str, object]:
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": "e1",
        "source": "tweets",
        "type": "notifier.tweet.mentioned.v1",
        "time": "2026-01-05T13:00:00+01:00",
        "data": {**DATA, **(data or {})},
    }
    return {**event, **fields}


def read(body: object) -> UpstreamEvent | NotifierError:
    return read_event(body if isinstance(body, bytes) else json.dumps(body).encode(), NOON).event


def test_event_is_read() -> None:
    event = read(raw())
    assert isinstance(event, Event)
    assert event.id == EventId("tweets", "e1")
    assert (event.author, event.mentioned, event.text, event.protected) == ("ada", ("nova",), "hi", True)
    assert event.happened_at == event.accepted_at == NOON


def test_text_and_protection_may_be_missing_and_unknown_fields_are_ignored() -> None:
    event = read(raw(data={"lang": "fr"}, traceparent="00-1", datacontenttype="application/json"))
    assert isinstance(event, Event)
    bare = read({**raw(), "data": {"tweet": "t", "author": "a", "mentions": ["n"]}})
    assert isinstance(bare, Event)
    assert (bare.text, bare.protected) == ("", False)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"[]", "object"),
        (b'{"type": "notifier.tweet.mentioned.v1", "id": "\xff"}', "utf-8"),
        (b"[" * 50_000, "object"),
        (raw(specversion="0.3"), "specversion"),
        (raw(type="notifier.tweet.mentioned.v2"), "type"),
        (raw(type="notifierXtweetXmentionedXv1"), "type"),
        (raw(type="notifier.tweet.mentioned.v1\n"), "type"),
        (raw(time="yesterday"), "time"),
        (raw(time="2026-01-05T12:00:00"), "time"),
        (raw(id=5), "id"),
        (raw(source=""), "source"),
        (raw(data={"author": None}), "data.author"),
        (raw(data={"mentions": []}), "data.mentions"),
        (raw(data={"mentions": "nova"}), "data.mentions"),
        (raw(data={"protected": "no"}), "data.protected"),
    ],
)
def test_invalid_event_is_refused_with_the_reason(body: object, reason: str) -> None:
    error = read(body)
    assert isinstance(error, BadEvent)
    assert reason in str(error)


def test_missing_field_is_named_in_the_error() -> None:
    without_time = {name: value for name, value in raw().items() if name != "time"}
    assert "`time`" in str(read(without_time))


def test_oversized_event_is_not_parsed() -> None:
    assert isinstance(read(b"x" * (MAX_EVENT_BYTES + 1)), TooLarge)
    assert isinstance(read(b"x" * MAX_EVENT_BYTES), BadEvent)


def change(**data: object) -> dict[str, object]:
    return raw(type="notifier.account.followed.v1") | {"data": {"follower": "ada", "followed": "nova", **data}}


def test_follow_and_unfollow_are_read() -> None:
    follow = read(change(sequence=7))
    assert isinstance(follow, FollowChange)
    assert (follow.follower, follow.followed, follow.action, follow.sequence) == ("ada", "nova", FollowAction.FOLLOW, 7)
    assert (follow.id, follow.at) == (EventId("tweets", "e1"), NOON)
    unfollow = read(change(sequence=8) | {"type": "notifier.account.unfollowed.v1"})
    assert isinstance(unfollow, FollowChange)
    assert (unfollow.action, unfollow.sequence) == (FollowAction.UNFOLLOW, 8)


def test_follow_dated_slightly_ahead_takes_effect_now() -> None:
    follow = read(change(sequence=7) | {"time": (NOON + timedelta(minutes=4)).isoformat()})
    assert isinstance(follow, FollowChange)
    assert follow.at == NOON


def test_old_follow_is_read() -> None:
    follow = read(change(sequence=7) | {"time": "2011-01-05T12:00:00Z"})
    assert isinstance(follow, FollowChange)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (change(), "sequence"),
        (change(sequence=0), "data.sequence"),
        (change(sequence=2**53), "data.sequence"),
        (change(sequence="7"), "data.sequence"),
        (change(sequence=7, follower="nova"), "data.follower"),
        (change(sequence=7, followed=""), "data.followed"),
        (change(sequence=7, follower="a" * 1_000), "data.follower"),
        (change(sequence=7) | {"time": (NOON + timedelta(minutes=6)).isoformat()}, "future"),
        (change(sequence=7) | {"time": "2026-01-05T12:00:00"}, "zone"),
        (raw(type="notifier.account.followed.v1"), "follower"),
    ],
)
def test_invalid_follow_is_refused_with_the_reason(body: object, reason: str) -> None:
    error = read(body)
    assert isinstance(error, BadEvent)
    assert reason in str(error)


def test_approved_request_is_a_follow_from_its_approval() -> None:
    follow = read(change(sequence=7) | {"type": "notifier.account.approved.v1"})
    assert isinstance(follow, FollowChange)
    assert (follow.follower, follow.followed, follow.action, follow.at) == ("ada", "nova", FollowAction.FOLLOW, NOON)


BLOCKED, UNBLOCKED = "notifier.account.blocked.v1", "notifier.account.unblocked.v1"


def block_event(type: str = BLOCKED, **data: object) -> dict[str, object]:
    return raw(type=type) | {"data": {"blocker": "ada", "blocked": "eve", **data}}


@pytest.mark.parametrize(("type", "blocks"), [(BLOCKED, True), (UNBLOCKED, False)])
def test_block_and_unblock_are_read(type: str, blocks: bool) -> None:
    user_block = read(block_event(type, sequence=7))
    assert isinstance(user_block, UserBlockChange)
    assert (user_block.blocker, user_block.blocked, user_block.blocks, user_block.sequence) == ("ada", "eve", blocks, 7)
    assert (user_block.id, user_block.at) == (EventId("tweets", "e1"), NOON)


def test_unblock_dated_slightly_ahead_takes_effect_now() -> None:
    unblock = read(block_event(UNBLOCKED, sequence=7) | {"time": (NOON + timedelta(minutes=4)).isoformat()})
    assert isinstance(unblock, UserBlockChange)
    assert unblock.at == NOON


@pytest.mark.parametrize("type", [BLOCKED, UNBLOCKED])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "sequence"),
        ({"sequence": 0}, "data.sequence"),
        ({"sequence": 2**53}, "data.sequence"),
        ({"sequence": "7"}, "data.sequence"),
        ({"sequence": 7, "blocker": "eve"}, "data.blocker"),
        ({"sequence": 7, "blocked": ""}, "data.blocked"),
        ({"sequence": 7, "blocker": "a" * 1_000}, "data.blocker"),
        ({"sequence": 7, "blocked": "e\n"}, "data.blocked"),
        ({"sequence": 7, "blocked": 5}, "data.blocked"),
    ],
)
def test_invalid_block_is_refused_with_the_reason(type: str, data: dict[str, object], reason: str) -> None:
    error = read(block_event(type, **data))
    assert isinstance(error, BadEvent)
    assert reason in str(error)


@pytest.mark.parametrize(
    ("time", "reason"), [((NOON + timedelta(minutes=6)).isoformat(), "future"), ("2026-01-05T12:00:00", "zone")]
)
def test_block_needs_a_valid_time(time: str, reason: str) -> None:
    error = read(block_event(sequence=7) | {"time": time})
    assert isinstance(error, BadEvent)
    assert reason in str(error)


def account(**data: object) -> dict[str, object]:
    return raw(type="notifier.account.changed.v1") | {"data": {"user": "ada", **data}}


def test_account_change_has_only_the_flags_it_names() -> None:
    account_change = read(account(sequence=7, vip=True, deleted=False))
    assert isinstance(account_change, AccountChange)
    assert (account_change.id, account_change.user, account_change.sequence) == (EventId("tweets", "e1"), "ada", 7)
    assert account_change.flags == {Flag.VIP: True, Flag.DELETED: False}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (account(vip=True), "sequence"),
        (account(vip=True, sequence=0), "data.sequence"),
        (account(sequence=7), "data must set at least one of verified, vip, deleted"),
        (account(sequence=7, vip=None), "data must set at least one of"),
        (account(sequence=7, vip="yes"), "data.vip"),
        (account(sequence=7, vip=True, user=""), "data.user"),
        (account(sequence=7, vip=True, user="a" * 1_000), "data.user"),
        (account(sequence=7, vip=True) | {"time": (NOON + timedelta(minutes=6)).isoformat()}, "future"),
        (raw(type="notifier.account.changed.v1"), "user"),
    ],
)
def test_invalid_account_change_is_refused_with_the_reason(body: object, reason: str) -> None:
    error = read(body)
    assert isinstance(error, BadEvent)
    assert reason in str(error)


def test_invalid_event_does_not_affect_its_batch() -> None:
    body = json.dumps([raw(id="a"), raw(id=""), 5, raw(id="b"), raw(data={"text": "x" * MAX_EVENT_BYTES})]).encode()
    parsed = read_batch(body, NOON)
    assert [type(entry.event) for entry in parsed] == [Event, BadEvent, BadEvent, Event, TooLarge]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1", b"5"])
def test_invalid_batch_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(BadEvent):
        read_batch(body, NOON)


def test_batch_size_is_limited() -> None:
    assert read_batch(b"[]", NOON) == []
    assert len(read_batch(b"[" + b"0," * (MAX_BATCH_EVENTS - 1) + b"0]", NOON)) == MAX_BATCH_EVENTS
    with pytest.raises(TooLarge):
        read_batch(b"[" + b"0," * MAX_BATCH_EVENTS + b"0]", NOON)


def test_type_of_an_otherwise_invalid_event_is_known() -> None:
    """Scopes are checked by type, so an invalid event of a forbidden type is forbidden."""
    body = json.dumps([raw(), sighting(user=""), raw(type="another"), 5]).encode()
    parsed = read_batch(body, NOON)
    assert [entry.type for entry in parsed] == ["notifier.tweet.mentioned.v1", "notifier.account.seen.v1", None, None]
    assert [isinstance(entry.event, BadEvent) for entry in parsed] == [False, True, True, True]


@pytest.mark.parametrize("body", [b"", b'"a","b"', b'"a"] ,["b"', b"[", b'"a" x', b"{" * 10_000])
def test_body_that_is_not_one_value_is_refused(body: bytes) -> None:
    assert isinstance(read(body), BadEvent)


@pytest.mark.parametrize("extra", [b",", b",{}", b"]", b" x", b"{}"])
def test_event_followed_by_more_data_is_refused(extra: bytes) -> None:
    assert isinstance(read(json.dumps(raw()).encode() + extra), BadEvent)


def test_control_characters_are_refused_in_names_and_removed_from_text() -> None:
    characters = [chr(n) for n in range(sys.maxunicode + 1)]
    control = {c for c in characters if unicodedata.category(c) in ("Cc", "Cs")}
    assert {c for c in characters if id_problem(c)} == control
    event = checked_mention_event(
        source="s",
        id="1",
        tweet="t",
        author="a",
        mentioned=["n"],
        text="".join([*sorted(control), "hi"]),
        protected=False,
        happened_at=NOON,
        now=NOON,
    )
    assert event.text == "\nhi"


def test_same_event_is_read_from_a_batch_as_alone() -> None:
    body = json.dumps(raw(data={"text": "a\nb\u00e9"})).encode()
    assert read_batch(b" [ " + body + b"\n, " + body + b" ] ", NOON) == [read_event(body, NOON)] * 2


def sighting(**data: object) -> dict[str, object]:
    return raw(type="notifier.account.seen.v1") | {"data": data}


def test_sighting_is_read() -> None:
    seen = read(sighting(user="ada"))
    assert isinstance(seen, Sighting)
    assert (seen.id, seen.user) == (EventId("tweets", "e1"), "ada")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (sighting(), "user"),
        (sighting(user=""), "data.user"),
        (sighting(user="a" * 1_000), "data.user"),
        (sighting(user="ada") | {"time": (NOON + timedelta(minutes=6)).isoformat()}, "future"),
    ],
)
def test_invalid_sighting_is_refused_with_the_reason(body: object, reason: str) -> None:
    error = read(body)
    assert isinstance(error, BadEvent)
    assert reason in str(error)
