"""Retractions of tweets and authors, and the mentions that they affect."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import (
    Retraction,
    RetractionCause,
    day_keys,
    erasure_key,
    protection_key,
    tweet_key,
)
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.ports.moderation_and_retractions import MentionLocation
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention
from tests.support.fakes.clock_and_nonces import START

ADA = UserId("ada")
T1 = tweet_key(ADA, "t1")
[TODAY] = day_keys(ADA, START, START)


def retraction(
    cause: RetractionCause = RetractionCause.DELETE, *, tweet: str = "t1", sequence: int = 1, minutes: int = 0
) -> Retraction:
    at = START + timedelta(minutes=minutes)
    return Retraction(id=EVENT, cause=cause, author=ADA, tweet=tweet, at=at, sequence=sequence, mentioned=(NOVA.owner,))


def event(n: int) -> EventId:
    return EventId("tweets", f"e{n}")


def sequenced(n: int, *, seq: int = 1, subject: Subject = NOVA, tweet: str = "t1") -> SequencedMention:
    return SequencedMention(mention=replace(mention(subject, event=event(n)), tweet=tweet), seq=seq)


def retracted(mention_: SequencedMention) -> SequencedMention:
    return replace(mention_, mention=replace(mention_.mention, retracted=True, text=""))


def test_unknown_keys_have_no_retraction(store: Store) -> None:
    assert store.retractions.read_current([T1, protection_key(ADA)]) == {}
    assert [*store.retractions.mention_locations([T1, TODAY])] == []


def test_highest_edit_wins_and_deletion_beats_all_edits(store: Store) -> None:
    retractions = [
        retraction(RetractionCause.EDIT, sequence=2),
        retraction(RetractionCause.EDIT, sequence=9),
        retraction(),
        retraction(RetractionCause.EDIT, sequence=3),
    ]
    for n, order in enumerate(permutations(retractions)):
        for retraction_ in order:
            store.retractions.write([replace(retraction_, tweet=f"t{n}")])
    with reopened(store) as other_process:
        current = other_process.retractions.read_current([tweet_key(ADA, f"t{n}") for n in range(24)])
        assert [retraction_.cause for retraction_ in current.values()] == [RetractionCause.DELETE] * 24
    store.retractions.write([retraction(RetractionCause.EDIT, tweet="e", sequence=n) for n in (2, 9, 3)])
    assert store.retractions.read_current([tweet_key(ADA, "e")]) == {
        tweet_key(ADA, "e"): retraction(RetractionCause.EDIT, tweet="e", sequence=9),
    }


def test_latest_protection_of_author_wins_and_erasure_is_separate(store: Store) -> None:
    early, late = (retraction(RetractionCause.PROTECT, tweet="", minutes=n) for n in (1, 2))
    store.retractions.write([late])
    store.retractions.write([early])
    assert store.retractions.read_current([protection_key(ADA), T1]) == {protection_key(ADA): late}
    erased = retraction(RetractionCause.ERASE, tweet="")
    store.retractions.write([erased])
    store.retractions.write([replace(erased, at=erased.at - timedelta(minutes=1))])
    expected = {protection_key(ADA): late, erasure_key(ADA): erased}
    assert store.retractions.read_current([protection_key(ADA), erasure_key(ADA)]) == expected


def test_mention_is_found_by_tweet_and_by_day_of_author(store: Store) -> None:
    own = Subject(Kind.SELF, NOVA.owner)
    mentions = [sequenced(1), sequenced(1, subject=own, seq=4), sequenced(2, tweet="t2")]
    store.bursts.write([burst()], mentions)
    locations = {MentionLocation(BurstKey(NOVA, 1), event(1)), MentionLocation(BurstKey(own, 4), event(1))}
    with reopened(store) as other_process:
        assert {*other_process.retractions.mention_locations([T1])} == locations
        assert {*other_process.retractions.mention_locations([TODAY])} == locations | {
            MentionLocation(BurstKey(NOVA, 1), event(2))
        }
        assert [
            *other_process.retractions.mention_locations(
                day_keys(ADA, START - timedelta(days=3), START - timedelta(days=1))
            )
        ] == []
        assert [*other_process.retractions.mention_locations(day_keys(UserId("bob"), START, START))] == []
        second, first = tweet_key(ADA, "t2"), T1
        assert [location.event for location in other_process.retractions.mention_locations([second, first])] == [
            event(2),
            event(1),
            event(1),
        ]


def test_mentions_can_be_limited_to_one_burst(store: Store) -> None:
    mentions = [sequenced(n, seq=1 + n % 2, subject=(NOVA, ORION)[n % 3 == 0]) for n in range(30)]
    store.bursts.write([], mentions)
    locations = [*store.retractions.mention_locations([TODAY], BurstKey(NOVA, 2))]
    assert {location.event for location in locations} == {event(n) for n in range(30) if n % 2 and n % 3}
    assert {location.burst for location in locations} == {BurstKey(NOVA, 2)}


def test_many_mentions_are_each_returned_once(store: Store) -> None:
    """More mentions than any backend reads at once."""
    mentions = [sequenced(n) for n in range(1_100)]
    store.bursts.write([burst()], mentions)
    assert sorted(location.event for location in store.retractions.mention_locations([T1])) == sorted(
        event(n) for n in range(1_100)
    )
    assert sorted(location.event for location in store.retractions.mentions_of_burst(BurstKey(NOVA, 1))) == sorted(
        event(n) for n in range(1_100)
    )


def test_changed_mention_is_read_in_its_new_state(store: Store) -> None:
    first, second = sequenced(1), sequenced(2)
    store.bursts.write([burst()], [first, second])
    store.bursts.write([burst(version=2)], [], [retracted(first)])
    locations = [MentionLocation(BurstKey(NOVA, 1), event(n)) for n in (1, 2, 3)]
    with reopened(store) as other_process:
        assert other_process.retractions.read_mentions(locations) == {
            locations[0]: retracted(first).mention,
            locations[1]: second.mention,
        }
        assert {
            mention_.event: mention_ for mention_ in other_process.retractions.mentions_of_burst(BurstKey(NOVA, 1))
        } == {
            event(1): retracted(first).mention,
            event(2): second.mention,
        }


def test_change_of_higher_version_wins_over_late_first_write(store: Store) -> None:
    mention_ = sequenced(1)
    edited = replace(mention_, mention=replace(mention_.mention, text="edited"))
    [location] = [MentionLocation(BurstKey(NOVA, 1), event(1))]
    store.bursts.write([burst()], [mention_])
    store.bursts.write([burst(version=5)], [], [retracted(mention_)])
    store.bursts.write([burst(version=4)], [], [edited])
    store.bursts.write([burst()], [mention_])
    assert store.retractions.read_mentions([location]) == {location: retracted(mention_).mention}
    assert store.bursts.read([location.burst])[location.burst].version == 5


def test_restriction_of_burst_can_change(store: Store) -> None:
    """A list for users who do not follow the author skips the burst."""
    public = burst()
    store.bursts.write([public], [])
    store.bursts.write([replace(public, version=2, restricted_to=ADA)], [])
    assert store.bursts.read([public.key])[public.key].restricted_to == ADA
