"""Held mentions: stored once, decided once, and listed until decided or expired."""

import json
from dataclasses import replace
from datetime import timedelta

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import audit_entries
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.held_mention import (
    HELD_MENTION_KEPT_FOR,
    MAX_DECISION_WAIT,
    HeldMention,
    ModerationDecision,
)
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.ids import UserId
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.contract_examples import event
from tests.support.fakes.clock_and_nonces import START

SECOND = timedelta(seconds=1)
NOVA = (UserId("nova"),)


def waiting(backend: Backend) -> list[HeldMention]:
    return sorted(backend.held_mentions.waiting(), key=lambda hold: hold.id)


def test_held_mention_is_listed_with_its_event(backend: Backend) -> None:
    holds = [HeldMention.from_event(event("e1"), NOVA), HeldMention.from_event(event("e2"), NOVA)]
    backend.held_mentions.put(holds)
    assert (waiting(backend), backend.held_mentions.count()) == (holds, 2)
    assert backend.held_mentions.by_event_id(["e1"]) == holds[:1]


def test_store_without_held_mentions_is_empty(backend: Backend) -> None:
    backend.held_mentions.put([])
    assert (waiting(backend), backend.held_mentions.count()) == ([], 0)
    assert backend.held_mentions.by_event_id(["e1"]) == []
    assert not backend.held_mentions.decide(EventId("tweets", "e1"), ModerationDecision.RELEASED, "grace", START)
    assert (waiting(backend), backend.held_mentions.count(), backend.held_mentions.by_event_id(["e1"])) == ([], 0, [])


def test_first_hold_of_event_wins(backend: Backend) -> None:
    first = HeldMention.from_event(event(), NOVA)
    backend.held_mentions.put([first])
    backend.held_mentions.put([first])
    backend.held_mentions.put(
        [HeldMention.from_event(replace(event(), accepted_at=START + SECOND), (*NOVA, UserId("lyra")))]
    )
    assert waiting(backend) == [first]


def test_held_mention_is_identified_by_source_and_id(backend: Backend) -> None:
    holds = [HeldMention.from_event(event(source=source), NOVA) for source in ("elsewhere", "tweets")]
    backend.held_mentions.put(holds)
    assert backend.held_mentions.by_event_id(["e1"]) == holds
    assert (
        backend.held_mentions.by_event_id(["e"])
        == backend.held_mentions.by_event_id([])
        == backend.held_mentions.by_event_id([""])
        == []
    )
    assert len({hold.key for hold in holds}) == 2


def test_held_mentions_of_many_events_are_returned(backend: Backend) -> None:
    holds = [HeldMention.from_event(event(f"e{n:02}"), NOVA) for n in range(40)]
    backend.held_mentions.put(holds[::2])
    backend.held_mentions.decide(holds[4].id, ModerationDecision.DROPPED, "grace", START)
    stored = backend.held_mentions.by_event_id({hold.id.id for hold in holds})
    assert [hold.id for hold in stored] == [hold.id for hold in holds[::2]]
    assert [hold.id for hold in stored if hold.decision] == [holds[4].id]


def test_held_mention_is_decided_once_and_stays_decided(backend: Backend) -> None:
    hold = HeldMention.from_event(event(), NOVA)
    backend.held_mentions.put([hold, HeldMention.from_event(event("e2"), NOVA)])
    assert backend.held_mentions.decide(hold.id, ModerationDecision.RELEASED, "grace", START + SECOND)
    assert not backend.held_mentions.decide(hold.id, ModerationDecision.RELEASED, "grace", START + SECOND)
    assert not backend.held_mentions.decide(hold.id, ModerationDecision.DROPPED, "ada", START + SECOND)
    backend.held_mentions.put([hold])
    assert [hold.id.id for hold in waiting(backend)] == ["e2"]
    assert backend.held_mentions.count() == 1
    [current] = backend.held_mentions.by_event_id(["e1"])
    assert current == replace(hold, decision=ModerationDecision.RELEASED)


def test_undecided_mention_expires_and_is_denied(backend: Backend) -> None:
    hold = HeldMention.from_event(event(), NOVA)
    backend.held_mentions.put([hold])
    backend.clock.advance(MAX_DECISION_WAIT - SECOND)
    assert (len(waiting(backend)), backend.held_mentions.count()) == (1, 1)
    backend.clock.advance(SECOND)
    now = backend.clock.now()
    assert (waiting(backend), backend.held_mentions.count()) == ([], 0)
    assert not backend.held_mentions.decide(hold.id, ModerationDecision.RELEASED, "grace", now)
    [current] = backend.held_mentions.by_event_id(["e1"])
    assert (current.decision, current.refusal(now)) == (None, MentionRefusal.DENIED)


def test_more_mentions_than_one_page_are_all_listed(backend: Backend) -> None:
    holds = [HeldMention.from_event(event(f"e{n:03}"), NOVA) for n in range(600)]
    backend.held_mentions.put(holds)
    backend.held_mentions.decide(holds[7].id, ModerationDecision.DROPPED, "grace", START)
    assert waiting(backend) == [*holds[:7], *holds[8:]]
    assert backend.held_mentions.count() == 599


def test_sqlite_keeps_text_until_deadline_and_row_until_expiry(sqlite: Backend) -> None:
    sqlite.held_mentions.put([HeldMention.from_event(event(), NOVA)])
    sqlite.clock.advance(MAX_DECISION_WAIT)
    sqlite.held_mentions.put([HeldMention.from_event(replace(event("e2"), accepted_at=sqlite.clock.now()), NOVA)])
    assert [hold.event for hold in sqlite.held_mentions.by_event_id(["e1"])] == [None]
    sqlite.clock.advance(HELD_MENTION_KEPT_FOR - MAX_DECISION_WAIT)
    sqlite.held_mentions.put([])
    assert list(sqlite.held_mentions.by_event_id(["e1"])) == []
    assert [hold.id.id for hold in sqlite.held_mentions.by_event_id(["e2"])] == ["e2"]


def test_every_decision_is_audited_with_its_operator(sqlite: Backend, files: Files) -> None:
    sqlite.held_mentions.put([HeldMention.from_event(event(id), NOVA) for id in ("e1", "e2")])
    for operator, id, decision in (
        ("ada", "e1", ModerationDecision.RELEASED),
        ("bo", "e1", ModerationDecision.DROPPED),
        ("cy", "e2", ModerationDecision.DROPPED),
    ):
        sqlite.held_mentions.decide(EventId("tweets", id), decision, operator, START)
    audit = [json.loads(body) for body, intact in audit_entries(files.core) if intact]
    decisions = [(entry["operator"], entry["action"], entry["id"]) for entry in audit]
    assert decisions == [("ada", "held_mention.released", "e1"), ("cy", "held_mention.dropped", "e2")]
