"""Leftovers: what bursts say once something of them was taken back, held against what the oracle leaves of them."""

from collections.abc import Iterator

from notifier.testing.oracle import State
from notifier.testing.simulator.sight import Sight, key_of


def left_over(sight: Sight) -> Iterator[str]:
    """Of every burst the count, the names and the text are those of what stands, and of nothing else; and nothing that
    is held, or was, has words of who was erased."""
    oracle = sight.oracle()
    erased = [word for word in oracle.words if word.what == "erase"]
    for hold in sight.ground.holds.by_event.values():
        tweet = oracle.tweets[hold.id.id]
        if hold.event and hold.event.text and any(word.of(tweet) for word in erased):
            yield f"{hold.id.id} is held with the words of {hold.author}, who was erased"
    yield from oracle.leaving()
    for burst in sight.ground.bursts.by_key.values():
        seen = oracle.bursts[key_of(burst.key)]
        left = oracle.left(seen)
        authors = {oracle.tweets[id].author for id in left}
        few = 1 if seen.left_to and left else len(left)  # some may have left before the last public one
        if not few <= burst.count <= len(left):
            yield f"{burst.key} says {burst.count} mentions and has {len(left)}"
        if left and set(burst.mentioners) != authors:
            yield f"{burst.key} names {burst.mentioners}, and should name {sorted(authors)}"
        if burst.text != (oracle.text(burst.tweet) if left else "") or (left and burst.tweet not in left):
            yield f"{burst.key} says {burst.text!r} of {burst.tweet}, and {left} stand"
        if burst.silent != oracle.silent(seen):
            yield f"{burst.key} says silent: {burst.silent}"
    for (key, event), mention in sight.ground.bursts.mentions.items():
        gone = oracle.state(event.id, key.subject.owner) is State.GONE
        if mention.retracted != gone or mention.text != ("" if gone else oracle.text(event.id)):
            yield f"{event.id} is kept in {key} as {mention.text!r}, retracted: {mention.retracted}"
