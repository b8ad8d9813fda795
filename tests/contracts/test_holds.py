"""Held mentions: the first hold of an event stands, it is decided once, and nothing decided or lapsed waits."""

import json
from dataclasses import replace
from datetime import timedelta

from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.inbox import entries
from notifier.domain.bursts.held_mention import KNOWN, WAITS, HeldMention, ModerationDecision
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.ids import UserId
from tests.contracts.backends import Backend
from tests.support.contract_examples import event
from tests.support.fakes.clock import START

SECOND = timedelta(seconds=1)
NOVA = (UserId("nova"),)


def waiting(backend: Backend) -> list[HeldMention]:
    return sorted(backend.holds.waiting(), key=lambda hold: hold.id)


def test_what_is_held_waits_with_its_event(backend: Backend) -> None:
    held = [HeldMention.of(event("e1"), NOVA), HeldMention.of(event("e2"), NOVA)]
    backend.holds.put(held)
    assert (waiting(backend), backend.holds.count()) == (held, 2)
    assert backend.holds.of(["e1"]) == held[:1]


def test_where_nothing_is_held_nothing_waits(backend: Backend) -> None:
    backend.holds.put([])
    assert (waiting(backend), backend.holds.count()) == ([], 0)
    assert backend.holds.of(["e1"]) == []
    assert not backend.holds.decide(EventId("tweets", "e1"), ModerationDecision.RELEASED, "grace", START)
    assert (waiting(backend), backend.holds.count(), backend.holds.of(["e1"])) == ([], 0, [])


def test_of_an_event_the_first_hold_stands(backend: Backend) -> None:
    first = HeldMention.of(event(), NOVA)
    backend.holds.put([first])
    backend.holds.put([first])
    backend.holds.put([HeldMention.of(replace(event(), accepted_at=START + SECOND), (*NOVA, UserId("lyra")))])
    assert waiting(backend) == [first]


def test_an_event_is_known_by_its_source_and_id(backend: Backend) -> None:
    held = [HeldMention.of(event(source=source), NOVA) for source in ("elsewhere", "tweets")]
    backend.holds.put(held)
    assert backend.holds.of(["e1"]) == held
    assert backend.holds.of(["e"]) == backend.holds.of([]) == backend.holds.of([""]) == []
    assert len({hold.key for hold in held}) == 2


def test_of_many_events_each_is_found(backend: Backend) -> None:
    held = [HeldMention.of(event(f"e{n:02}"), NOVA) for n in range(40)]
    backend.holds.put(held[::2])
    backend.holds.decide(held[4].id, ModerationDecision.DROPPED, "grace", START)
    found = backend.holds.of({hold.id.id for hold in held})
    assert [hold.id for hold in found] == [hold.id for hold in held[::2]]
    assert [hold.id for hold in found if hold.decision] == [held[4].id]


def test_it_is_decided_once_and_stays_so_however_often_it_is_held_again(backend: Backend) -> None:
    held = HeldMention.of(event(), NOVA)
    backend.holds.put([held, HeldMention.of(event("e2"), NOVA)])
    assert backend.holds.decide(held.id, ModerationDecision.RELEASED, "grace", START + SECOND)
    assert not backend.holds.decide(held.id, ModerationDecision.RELEASED, "grace", START + SECOND)
    assert not backend.holds.decide(held.id, ModerationDecision.DROPPED, "ada", START + SECOND)
    backend.holds.put([held])
    assert [hold.id.id for hold in waiting(backend)] == ["e2"]
    assert backend.holds.count() == 1
    [found] = backend.holds.of(["e1"])
    assert found == replace(held, decision=ModerationDecision.RELEASED)


def test_what_nobody_decided_in_time_waits_no_longer_and_is_not_let_go(backend: Backend) -> None:
    held = HeldMention.of(event(), NOVA)
    backend.holds.put([held])
    backend.clock.advance(WAITS - SECOND)
    assert (len(waiting(backend)), backend.holds.count()) == (1, 1)
    backend.clock.advance(SECOND)
    now = backend.clock.now()
    assert (waiting(backend), backend.holds.count()) == ([], 0)
    assert not backend.holds.decide(held.id, ModerationDecision.RELEASED, "grace", now)
    [found] = backend.holds.of(["e1"])
    assert (found.decision, found.refusal(now)) == (None, MentionRefusal.DENIED)


def test_more_than_a_page_are_all_told(backend: Backend) -> None:
    held = [HeldMention.of(event(f"e{n:03}"), NOVA) for n in range(600)]
    backend.holds.put(held)
    backend.holds.decide(held[7].id, ModerationDecision.DROPPED, "grace", START)
    assert waiting(backend) == [*held[:7], *held[8:]]
    assert backend.holds.count() == 599


def test_a_file_keeps_the_text_while_it_may_wait_and_the_row_while_it_may_be_asked_for(sqlite: Backend) -> None:
    sqlite.holds.put([HeldMention.of(event(), NOVA)])
    sqlite.clock.advance(WAITS)
    sqlite.holds.put([HeldMention.of(replace(event("e2"), accepted_at=sqlite.clock.now()), NOVA)])
    assert [hold.event for hold in sqlite.holds.of(["e1"])] == [None]
    sqlite.clock.advance(KNOWN - WAITS)
    sqlite.holds.put([])
    assert list(sqlite.holds.of(["e1"])) == []
    assert [hold.id.id for hold in sqlite.holds.of(["e2"])] == ["e2"]


def test_every_decision_is_in_the_audit_with_who_took_it(sqlite: Backend, files: Files) -> None:
    sqlite.holds.put([HeldMention.of(event(id), NOVA) for id in ("e1", "e2")])
    for who, id, decision in (
        ("ada", "e1", ModerationDecision.RELEASED),
        ("bo", "e1", ModerationDecision.DROPPED),
        ("cy", "e2", ModerationDecision.DROPPED),
    ):
        sqlite.holds.decide(EventId("tweets", id), decision, who, START)
    found = [json.loads(body) for body, intact in entries(files.core) if intact]
    told = [(entry["who"], entry["what"], entry["id"]) for entry in found]
    assert told == [("ada", "hold.released", "e1"), ("cy", "hold.dropped", "e2")]
