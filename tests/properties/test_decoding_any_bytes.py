"""Reading any bytes gives a value or a Poison error."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.codec import pack, read_batch, read_event, unpack, unpack_snapshot
from notifier.domain.bursts.events_and_mentions import Event
from notifier.domain.bursts.sequencer import Head, advance
from notifier.domain.errors import NotifierError, Poison
from notifier.domain.upstream.validation import checked_mention_event
from tests.support.domain_examples import NOON, OF_NOVA, mention, numbered

STORED = pack(advance(Head.empty(OF_NOVA), numbered(mention()), sequenced_events=(), now=NOON, nonce="n"))
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)


@given(st.binary(max_size=60))
@settings(max_examples=100)
def test_noise_is_poison(noise: bytes) -> None:
    for read in (lambda: unpack(Event, noise), lambda: unpack_snapshot(0, noise)):
        try:
            read()
        except Poison:
            continue
        raise AssertionError("noise was read as a value")


@given(st.integers(0, len(STORED)), st.binary(min_size=1, max_size=4))
@settings(max_examples=150)
def test_corrupted_head_is_poison_or_a_head(position: int, noise: bytes) -> None:
    with suppress(Poison):
        assert isinstance(unpack(Head, STORED[:position] + noise + STORED[position + len(noise) :]), Head)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.booleans())
@settings(max_examples=100)
def test_random_bytes_of_a_client_are_refused(body: bytes, batch: bool) -> None:
    try:
        results = read_batch(body, NOON) if batch else [read_event(body, NOON)]
    except NotifierError:
        return
    assert all(isinstance(result.event, NotifierError) for result in results)


@given(NAMES, NAMES, st.lists(NAMES, min_size=1, max_size=5), st.text(max_size=50), st.booleans())
@settings(max_examples=60)
def test_every_accepted_event_can_be_stored(
    name: str, author: str, mentioned: list[str], text: str, protected: bool
) -> None:
    event = checked_mention_event(
        source=name,
        id=name,
        tweet=name,
        author=author,
        mentioned=mentioned,
        text=text,
        protected=protected,
        happened_at=NOON,
        now=NOON,
    )
    assert unpack(Event, pack(event)) == event
