"""Bursts and the outcomes of events, on every backend."""

from datetime import timedelta

from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.flow.inbox.burst_walk import position_of
from notifier.ports.bursts import MentionOutcome
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import EVENT, NOVA, ORION, burst, mention
from tests.support.fakes.clock_and_nonces import START

OTHER = EventId("tweets", "e2")
OWN = Subject(Kind.SELF, NOVA.owner)


def test_burst_is_read_as_written(store: Store) -> None:
    first, second = burst(), burst(ORION, 2)
    store.bursts.write([first, second], [])
    with reopened(store) as other_process:
        assert other_process.bursts.read([first.key, second.key, BurstKey(NOVA, 9)]) == {
            first.key: first,
            second.key: second,
        }


def test_higher_burst_version_wins(store: Store) -> None:
    old, new = burst(version=4, text="old"), burst(version=5, text="new", opened_at=START + timedelta(seconds=2))
    store.bursts.write([new], [])
    store.bursts.write([old], [])
    assert store.bursts.read([new.key]) == {new.key: new}
    assert store.recent.opened_since(START + timedelta(seconds=1), None, 9) == [new]
    grown = burst(version=6, text="grown")
    store.bursts.write([grown], [])
    assert store.bursts.read([new.key]) == {new.key: grown}


def test_event_is_known_only_in_its_subject(store: Store) -> None:
    store.bursts.write([burst()], [SequencedMention(mention=mention(event=EVENT), seq=1)])
    queries = {NOVA: [EVENT, OTHER, EventId("elsewhere", EVENT.id)], ORION: [EVENT], OWN: [EVENT]}
    assert store.bursts.known_events(queries) == {NOVA: {EVENT}, ORION: set(), OWN: set()}
    assert store.bursts.known_events({}) == {}


def test_each_event_is_known_by_source_and_id(store: Store) -> None:
    """More events than one statement takes, from several sources that use the same ids."""
    events = [EventId(f"source{n % 3}", f"e{n // 3}") for n in range(150)]
    store.bursts.write([burst()], [SequencedMention(mention=mention(event=event), seq=1) for event in events[::2]])
    assert store.bursts.known_events({NOVA: events}) == {NOVA: set(events[::2])}
    assert [outcome.event for outcome in store.bursts.outcomes(None, "e1")] == sorted({*events[3:6]} & {*events[::2]})


def test_mention_keeps_its_first_burst(store: Store) -> None:
    for seq in (1, 2):
        store.bursts.write([burst(seq=seq)], [SequencedMention(mention=mention(event=EVENT), seq=seq)])
    assert [outcome.burst for outcome in store.bursts.outcomes(EVENT.source, EVENT.id)] == [BurstKey(NOVA, 1)]


def test_event_has_outcome_for_every_account(store: Store) -> None:
    refused = MentionOutcome(event=EVENT, account=UserId("zoe"), burst=None, refusal=MentionRefusal.NOT_WANTED)
    sequenced = [
        SequencedMention(mention=mention(NOVA, event=EVENT), seq=1),
        SequencedMention(mention=mention(OWN, event=EVENT), seq=4),
    ]
    store.bursts.write([], sequenced)
    store.bursts.record_refusals([refused])
    store.bursts.record_refusals([refused])
    with reopened(store) as other_process:
        assert list(other_process.bursts.outcomes(EVENT.source, EVENT.id)) == [
            MentionOutcome(event=EVENT, account=NOVA.owner, burst=BurstKey(NOVA, 1), refusal=None),
            MentionOutcome(event=EVENT, account=NOVA.owner, burst=BurstKey(OWN, 4), refusal=None),
            refused,
        ]


def test_outcomes_without_source_cover_every_source(store: Store) -> None:
    other_source = EventId("elsewhere", EVENT.id)
    store.bursts.record_refusals(
        [
            MentionOutcome(event=event_id, account=UserId("zoe"), burst=None, refusal=MentionRefusal.DENIED)
            for event_id in (EVENT, other_source, OTHER)
        ]
    )
    assert [outcome.event for outcome in store.bursts.outcomes(None, EVENT.id)] == [other_source, EVENT]
    assert [outcome.event for outcome in store.bursts.outcomes(EVENT.source, EVENT.id)] == [EVENT]
    assert list(store.bursts.outcomes("nowhere", EVENT.id)) == []


def test_recent_bursts_are_paged_newest_first_since_a_time(store: Store) -> None:
    bursts = [
        burst(ORION, 1, opened_at=START),
        burst(NOVA, 2, opened_at=START + timedelta(seconds=1)),
        burst(ORION, 2, opened_at=START + timedelta(seconds=1)),
        burst(NOVA, 3, opened_at=START + timedelta(seconds=2)),
    ]
    store.bursts.write(bursts, [])
    newest = bursts[::-1]
    assert store.recent.opened_since(START, None, 9) == newest
    assert store.recent.opened_since(START + timedelta(seconds=1), None, 9) == newest[:3]
    assert store.recent.opened_since(START, None, 2) == newest[:2]
    assert store.recent.opened_since(START, position_of(newest[1]), 9) == newest[2:]
    assert store.recent.opened_since(START, position_of(newest[2]), 1) == newest[3:]
    assert store.recent.opened_since(START, position_of(newest[3]), 9) == []
