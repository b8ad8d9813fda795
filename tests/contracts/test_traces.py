"""What is left of somebody's words beside mentions: it is found, and gone for good."""

from dataclasses import replace
from datetime import timedelta

from notifier.codec import names, pack
from notifier.domain.bursts.held_mention import WAITS, HeldMention, ModerationDecision
from notifier.domain.ids import UserId
from notifier.ports.event_log import DeadLetter
from tests.contracts.backends import Backend
from tests.support.contract_examples import event
from tests.support.fakes.clock import START

BOB, EVE, NOVA = UserId("bob"), UserId("eve"), (UserId("nova"),)


def held(id: str, author: UserId = BOB) -> HeldMention:
    return HeldMention.of(replace(event(id), author=author), NOVA)


def letter(id: str, body: bytes) -> DeadLetter:
    return DeadLetter(id=id, stage="router", cause="It is no Arrival.", body=body, at=START)


def test_an_author_s_held_events_are_found_decided_or_not(backend: Backend) -> None:
    holds = [held("e1"), held("e2"), held("e3", EVE)]
    backend.holds.put(holds)
    assert backend.holds.decide(holds[0].id, ModerationDecision.DROPPED, "grace", START)
    assert sorted(hold.id.id for hold in backend.traces.held([BOB])) == ["e1", "e2"]
    assert sorted(hold.id.id for hold in backend.traces.held([BOB, EVE])) == ["e1", "e2", "e3"]
    assert [*backend.traces.held([UserId("nova")])] == []


def test_a_blanked_event_has_no_text_though_it_is_held_again_and_all_else_stays(backend: Backend) -> None:
    holds = [held(f"e{n}") for n in range(3)]
    backend.holds.put([*holds, held("other", EVE)])
    for _ in range(2):
        backend.traces.blank(holds)
    backend.holds.put(holds)
    assert [*backend.traces.held([BOB])] == []
    assert {hold.id.id: hold.event and hold.event.text for hold in backend.holds.waiting()} == {
        "e0": "",
        "e1": "",
        "e2": "",
        "other": "hello @nova",
    }
    assert backend.holds.of(["e1"]) == [holds[1].blank]
    assert backend.holds.decide(holds[1].id, ModerationDecision.RELEASED, "grace", START)
    assert backend.holds.of(["e1"]) == [replace(holds[1].blank, decision=ModerationDecision.RELEASED)]


def test_of_many_every_one_is_found(backend: Backend) -> None:
    holds = [held(f"e{n}") for n in range(501)]
    backend.holds.put(holds)
    assert len([*backend.traces.held([BOB])]) == 501
    backend.traces.blank(holds[:500])
    assert [hold.id.id for hold in backend.traces.held([BOB])] == ["e500"]


def test_what_has_lapsed_has_no_text_to_be_blanked(backend: Backend) -> None:
    hold = held("e1")
    backend.holds.put([hold])
    backend.clock.advance(WAITS + timedelta(seconds=1))
    backend.traces.blank([hold])
    assert [one.event and one.event.text for one in backend.holds.of(["e1"])] in ([None], [""])


def test_letters_are_found_and_emptied_for_good(backend: Backend) -> None:
    letters = [letter(f"mentions/0#{n}", pack(event(f"e{n}"))) for n in range(3)]
    for one in letters:
        backend.dead_letters.put(one)
    assert sorted(backend.traces.letters(), key=lambda one: one.id) == letters
    for _ in range(2):
        backend.traces.empty(letters[:2])
        backend.dead_letters.put(letters[0])
    assert [*backend.traces.letters()] == letters[2:]
    found = sorted(backend.dead_letters.list(10), key=lambda one: one.id)
    assert found == [*(replace(one, body=b"") for one in letters[:2]), letters[2]]


def test_a_name_is_found_where_it_is_a_word_of_its_own_and_anywhere_in_what_nobody_can_read() -> None:
    body = pack({"author": "bob", "nested": [{"eve": 1}], "raw": b"by ada"})
    assert [names(body, [user]) for user in ("bob", "eve", "ada", "bo", "autho", "nested")] == [
        *[True] * 3,
        *[False] * 2,
        True,
    ]
    assert (names(b"\xc1 by bob", ["eve", "bob"]), names(b"\xc1 by bob", ["eve"])) == (True, False)
