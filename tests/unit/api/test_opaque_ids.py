"""Opaque ids, cursors and seen tokens are bound to key, purpose and user."""

import pytest

from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.api.opaque_ids import OpaqueIds
from notifier.domain.errors import BadCursor, BadMark, BadSeenToken
from notifier.domain.ids import MAX_SEQ_DIGITS, BurstKey
from notifier.domain.users.visibility import SeenToken
from notifier.ports.inbox import InboxPosition
from tests.support.domain_examples import ADA, BOB, NOON, OF_NOVA, SELF_NOVA

OPAQUE = OpaqueIds.of(InstallationKeys(secret="s" * 32, service_key="k"))
OTHER_KEYS = OpaqueIds.of(InstallationKeys(secret="t" * 32, service_key="k"))
LARGEST = 10**MAX_SEQ_DIGITS - 1


def key(seq: int) -> BurstKey:
    return BurstKey(OF_NOVA, seq)


def token(*seqs: int) -> SeenToken:
    return SeenToken(viewer=ADA, as_of=NOON, newer=frozenset({*map(key, seqs), BurstKey(SELF_NOVA, 3)}))


@pytest.mark.parametrize("seq", [0, 1, 255, 65_536, LARGEST])
def test_issued_texts_are_read_back(seq: int) -> None:
    assert OPAQUE.burst(ADA, OPAQUE.id(ADA, key(seq))) == key(seq)
    assert OPAQUE.inbox_position(ADA, OPAQUE.cursor(ADA, InboxPosition(NOON, key(seq)))) == InboxPosition(
        NOON, key(seq)
    )
    assert OPAQUE.gap_position(ADA, OF_NOVA, OPAQUE.gap_cursor(ADA, InboxPosition(NOON, key(seq)))) == InboxPosition(
        NOON, key(seq)
    )
    assert OPAQUE.seen_token(ADA, OPAQUE.encode_seen(token(seq))) == token(seq)


def test_length_does_not_depend_on_the_number() -> None:
    assert len({len(OPAQUE.id(ADA, key(seq))) for seq in (1, 200, 70_000, LARGEST)}) == 1
    assert len({len(OPAQUE.cursor(ADA, InboxPosition(NOON, key(seq)))) for seq in (1, 200, 70_000, LARGEST)}) == 1
    assert len({len(OPAQUE.gap_cursor(ADA, InboxPosition(NOON, key(seq)))) for seq in (1, 200, 70_000, LARGEST)}) == 1
    assert len(OPAQUE.encode_seen(token(1, 2))) == len(OPAQUE.encode_seen(token(LARGEST, 200)))


def test_gap_cursor_is_bound_to_viewer_subject_and_purpose() -> None:
    place = InboxPosition(NOON, key(1))
    cursor = OPAQUE.gap_cursor(ADA, place)
    for viewer, subject, text in (
        (BOB, OF_NOVA, cursor),
        (ADA, SELF_NOVA, cursor),
        (ADA, OF_NOVA, OPAQUE.cursor(ADA, place)),
        (ADA, OF_NOVA, OTHER_KEYS.gap_cursor(ADA, place)),
    ):
        with pytest.raises(BadCursor):
            OPAQUE.gap_position(viewer, subject, text)
    with pytest.raises(BadCursor):
        OPAQUE.inbox_position(ADA, cursor)


def test_encoding_is_deterministic() -> None:
    assert OPAQUE.id(ADA, key(7)) == OPAQUE.id(ADA, key(7))
    assert OPAQUE.encode_seen(token(*range(20))) == OPAQUE.encode_seen(token(*reversed(range(20))))


def test_text_of_other_user_purpose_or_key_is_refused() -> None:
    id, cursor, seen = (
        OPAQUE.id(ADA, key(1)),
        OPAQUE.cursor(ADA, InboxPosition(NOON, key(1))),
        OPAQUE.encode_seen(token(1)),
    )
    for text in (
        cursor,
        seen,
        OPAQUE.id(BOB, key(1)),
        OTHER_KEYS.id(ADA, key(1)),
        id + "=",
        id + "!",
        id[:-4],
        "",
        "ü",
    ):
        with pytest.raises(BadMark):
            OPAQUE.burst(ADA, text)
    for text in (id, seen, OPAQUE.cursor(BOB, InboxPosition(NOON, key(1)))):
        with pytest.raises(BadCursor):
            OPAQUE.inbox_position(ADA, text)
    for text in (id, cursor):
        with pytest.raises(BadSeenToken):
            OPAQUE.seen_token(ADA, text)
    with pytest.raises(BadSeenToken):
        OPAQUE.seen_token(BOB, seen)
