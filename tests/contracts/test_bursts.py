"""The contract of the canonical bursts and of what became of events."""

from datetime import timedelta

from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Sequenced
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import place_of
from notifier.ports.bursts import Outcome
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention
from tests.support.fakes.clock import START

OTHER = EventId("tweets", "e2")
OWN = Subject(Kind.SELF, NOVA.owner)


def test_a_burst_is_read_as_it_was_written(store: Store) -> None:
    first, second = burst(), burst(ORION, 2)
    store.bursts.write([first, second], [])
    with reopened(store) as again:
        assert again.bursts.read([first.key, second.key, BurstKey(NOVA, 9)]) == {first.key: first, second.key: second}


def test_of_two_writes_of_a_burst_the_higher_version_stands(store: Store) -> None:
    old, new = burst(version=4, text="old"), burst(version=5, text="new", opened_at=START + timedelta(seconds=2))
    store.bursts.write([new], [])
    store.bursts.write([old], [])
    assert store.bursts.read([new.key]) == {new.key: new}
    assert store.recent.since(START + timedelta(seconds=1), None, 9) == [new]
    grown = burst(version=6, text="grown")
    store.bursts.write([grown], [])
    assert store.bursts.read([new.key]) == {new.key: grown}


def test_an_event_is_known_in_its_subject_alone(store: Store) -> None:
    store.bursts.write([burst()], [Sequenced(mention=mention(event=EVENT), seq=1)])
    asked = {NOVA: [EVENT, OTHER, EventId("elsewhere", EVENT.id)], ORION: [EVENT], OWN: [EVENT]}
    assert store.bursts.known(asked) == {NOVA: {EVENT}, ORION: set(), OWN: set()}
    assert store.bursts.known({}) == {}


def test_of_many_events_each_is_known_by_its_source_and_id(store: Store) -> None:
    """More than go to a store at once, and of several sources that use the same ids."""
    events = [EventId(f"source{n % 3}", f"e{n // 3}") for n in range(150)]
    store.bursts.write([burst()], [Sequenced(mention=mention(event=event), seq=1) for event in events[::2]])
    assert store.bursts.known({NOVA: events}) == {NOVA: set(events[::2])}
    assert [o.event for o in store.bursts.outcomes(None, "e1")] == sorted({*events[3:6]} & {*events[::2]})


def test_a_mention_keeps_its_first_burst(store: Store) -> None:
    for seq in (1, 2):
        store.bursts.write([burst(seq=seq)], [Sequenced(mention=mention(event=EVENT), seq=seq)])
    assert [outcome.burst for outcome in store.bursts.outcomes(EVENT.source, EVENT.id)] == [BurstKey(NOVA, 1)]


def test_an_event_tells_what_became_of_every_account(store: Store) -> None:
    refused = Outcome(event=EVENT, account=UserId("zoe"), burst=None, refusal=MentionRefusal.NOT_WANTED)
    both = [Sequenced(mention=mention(NOVA, event=EVENT), seq=1), Sequenced(mention=mention(OWN, event=EVENT), seq=4)]
    store.bursts.write([], both)
    store.bursts.refuse([refused])
    store.bursts.refuse([refused])
    with reopened(store) as again:
        assert list(again.bursts.outcomes(EVENT.source, EVENT.id)) == [
            Outcome(event=EVENT, account=NOVA.owner, burst=BurstKey(NOVA, 1), refusal=None),
            Outcome(event=EVENT, account=NOVA.owner, burst=BurstKey(OWN, 4), refusal=None),
            refused,
        ]


def test_without_a_source_every_event_of_the_id_answers(store: Store) -> None:
    elsewhere = EventId("elsewhere", EVENT.id)
    store.bursts.refuse(
        [
            Outcome(event=e, account=UserId("zoe"), burst=None, refusal=MentionRefusal.DENIED)
            for e in (EVENT, elsewhere, OTHER)
        ]
    )
    assert [outcome.event for outcome in store.bursts.outcomes(None, EVENT.id)] == [elsewhere, EVENT]
    assert [outcome.event for outcome in store.bursts.outcomes(EVENT.source, EVENT.id)] == [EVENT]
    assert list(store.bursts.outcomes("nowhere", EVENT.id)) == []


def test_recent_bursts_come_newest_first_page_by_page_from_the_moment_on(store: Store) -> None:
    made = [
        burst(ORION, 1, opened_at=START),
        burst(NOVA, 2, opened_at=START + timedelta(seconds=1)),
        burst(ORION, 2, opened_at=START + timedelta(seconds=1)),
        burst(NOVA, 3, opened_at=START + timedelta(seconds=2)),
    ]
    store.bursts.write(made, [])
    newest = made[::-1]
    assert store.recent.since(START, None, 9) == newest
    assert store.recent.since(START + timedelta(seconds=1), None, 9) == newest[:3]
    assert store.recent.since(START, None, 2) == newest[:2]
    assert store.recent.since(START, place_of(newest[1]), 9) == newest[2:]
    assert store.recent.since(START, place_of(newest[2]), 1) == newest[3:]
    assert store.recent.since(START, place_of(newest[3]), 9) == []
