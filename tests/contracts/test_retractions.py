"""The contract of what was taken back: what stands of a tweet or an author, and the way to the mentions it is about."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations

from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import (
    Retraction,
    RetractionCause,
    author_trail,
    day_trails,
    erased_trail,
    tweet_trail,
)
from notifier.domain.bursts.sequencer import Sequenced
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.ports.retractions import MentionLocation
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention
from tests.support.fakes.clock import START

ADA = UserId("ada")
T1 = tweet_trail(ADA, "t1")
[TODAY] = day_trails(ADA, START, START)


def said(
    cause: RetractionCause = RetractionCause.DELETE, *, tweet: str = "t1", sequence: int = 1, minutes: int = 0
) -> Retraction:
    at = START + timedelta(minutes=minutes)
    return Retraction(id=EVENT, cause=cause, author=ADA, tweet=tweet, at=at, sequence=sequence, mentioned=(NOVA.owner,))


def event(n: int) -> EventId:
    return EventId("tweets", f"e{n}")


def sequenced(n: int, *, seq: int = 1, subject: Subject = NOVA, tweet: str = "t1") -> Sequenced:
    return Sequenced(mention=replace(mention(subject, event=event(n)), tweet=tweet), seq=seq)


def gone(one: Sequenced) -> Sequenced:
    return replace(one, mention=replace(one.mention, retracted=True, text=""))


def test_of_what_nothing_was_said_nothing_stands(store: Store) -> None:
    assert store.retractions.standing([T1, author_trail(ADA)]) == {}
    assert [*store.retractions.along([T1, TODAY])] == []


def test_of_a_tweets_edits_the_highest_sequence_stands_and_its_deletion_above_all(store: Store) -> None:
    words = [
        said(RetractionCause.EDIT, sequence=2),
        said(RetractionCause.EDIT, sequence=9),
        said(),
        said(RetractionCause.EDIT, sequence=3),
    ]
    for n, order in enumerate(permutations(words)):
        for word in order:
            store.retractions.write([replace(word, tweet=f"t{n}")])
    with reopened(store) as again:
        found = again.retractions.standing([tweet_trail(ADA, f"t{n}") for n in range(24)])
        assert [one.cause for one in found.values()] == [RetractionCause.DELETE] * 24
    store.retractions.write([said(RetractionCause.EDIT, tweet="e", sequence=n) for n in (2, 9, 3)])
    assert store.retractions.standing([tweet_trail(ADA, "e")]) == {
        tweet_trail(ADA, "e"): said(RetractionCause.EDIT, tweet="e", sequence=9),
    }


def test_of_an_author_the_latest_moment_stands_and_erasure_beside_it(store: Store) -> None:
    early, late = (said(RetractionCause.PROTECT, tweet="", minutes=n) for n in (1, 2))
    store.retractions.write([late])
    store.retractions.write([early])
    assert store.retractions.standing([author_trail(ADA), T1]) == {author_trail(ADA): late}
    erased = said(RetractionCause.ERASE, tweet="")
    store.retractions.write([erased])
    store.retractions.write([replace(erased, at=erased.at - timedelta(minutes=1))])
    both = {author_trail(ADA): late, erased_trail(ADA): erased}
    assert store.retractions.standing([author_trail(ADA), erased_trail(ADA)]) == both


def test_a_mention_is_found_by_its_tweet_and_by_its_authors_day(store: Store) -> None:
    own = Subject(Kind.SELF, NOVA.owner)
    written = [sequenced(1), sequenced(1, subject=own, seq=4), sequenced(2, tweet="t2")]
    store.bursts.write([burst()], written)
    of_one = {MentionLocation(BurstKey(NOVA, 1), event(1)), MentionLocation(BurstKey(own, 4), event(1))}
    with reopened(store) as again:
        assert {*again.retractions.along([T1])} == of_one
        assert {*again.retractions.along([TODAY])} == of_one | {MentionLocation(BurstKey(NOVA, 1), event(2))}
        assert [*again.retractions.along(day_trails(ADA, START - timedelta(days=3), START - timedelta(days=1)))] == []
        assert [*again.retractions.along(day_trails(UserId("bob"), START, START))] == []
        later, sooner = tweet_trail(ADA, "t2"), T1
        assert [one.event for one in again.retractions.along([later, sooner])] == [event(2), event(1), event(1)]


def test_a_trail_is_followed_within_one_burst_alone(store: Store) -> None:
    written = [sequenced(n, seq=1 + n % 2, subject=(NOVA, ORION)[n % 3 == 0]) for n in range(30)]
    store.bursts.write([], written)
    found = [*store.retractions.along([TODAY], BurstKey(NOVA, 2))]
    assert {one.event for one in found} == {event(n) for n in range(30) if n % 2 and n % 3}
    assert {one.burst for one in found} == {BurstKey(NOVA, 2)}


def test_many_mentions_are_walked_to_their_end_and_each_is_met_once(store: Store) -> None:
    """More than any backend reads at once."""
    written = [sequenced(n) for n in range(1_100)]
    store.bursts.write([burst()], written)
    assert sorted(one.event for one in store.retractions.along([T1])) == sorted(event(n) for n in range(1_100))
    assert sorted(one.event for one in store.retractions.within(BurstKey(NOVA, 1))) == sorted(
        event(n) for n in range(1_100)
    )


def test_a_mention_is_what_it_was_changed_to(store: Store) -> None:
    first, second = sequenced(1), sequenced(2)
    store.bursts.write([burst()], [first, second])
    store.bursts.write([burst(version=2)], [], [gone(first)])
    places = [MentionLocation(BurstKey(NOVA, 1), event(n)) for n in (1, 2, 3)]
    with reopened(store) as again:
        assert again.retractions.read(places) == {places[0]: gone(first).mention, places[1]: second.mention}
        assert {one.event: one for one in again.retractions.within(BurstKey(NOVA, 1))} == {
            event(1): gone(first).mention,
            event(2): second.mention,
        }


def test_of_two_changes_that_of_the_higher_version_stands_and_a_late_first_write_undoes_none(store: Store) -> None:
    one = sequenced(1)
    edited = replace(one, mention=replace(one.mention, text="edited"))
    [place] = [MentionLocation(BurstKey(NOVA, 1), event(1))]
    store.bursts.write([burst()], [one])
    store.bursts.write([burst(version=5)], [], [gone(one)])
    store.bursts.write([burst(version=4)], [], [edited])
    store.bursts.write([burst()], [one])
    assert store.retractions.read([place]) == {place: gone(one).mention}
    assert store.bursts.read([place.burst])[place.burst].version == 5


def test_what_a_burst_is_restricted_to_may_change(store: Store) -> None:
    """A list for who doesn't follow the author passes it as if it weren't there."""
    public = burst()
    store.bursts.write([public], [])
    store.bursts.write([replace(public, version=2, restricted_to=ADA)], [])
    assert store.bursts.read([public.key])[public.key].restricted_to == ADA
