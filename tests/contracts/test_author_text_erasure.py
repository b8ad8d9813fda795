"""An author's text outside mentions: it is found, and deleted for good."""

from dataclasses import replace
from datetime import timedelta

from notifier.codec import contains_user, pack
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention, ModerationDecision
from notifier.domain.ids import UserId
from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.contract_examples import event
from tests.support.fakes.clock_and_nonces import START

BOB, EVE, NOVA = UserId("bob"), UserId("eve"), (UserId("nova"),)


def held_mention(id: str, author: UserId = BOB) -> HeldMention:
    return HeldMention.from_event(replace(event(id), author=author), NOVA)


def dead_letter(id: str, body: bytes) -> DeadLetter:
    return DeadLetter(id=id, stage="router", cause="It is no LoggedEvent.", body=body, at=START)


def test_held_events_of_author_are_found_before_and_after_decision(backend: Backend) -> None:
    holds = [held_mention("e1"), held_mention("e2"), held_mention("e3", EVE)]
    backend.held_mentions.put(holds)
    assert backend.held_mentions.decide(holds[0].id, ModerationDecision.DROPPED, "grace", START)
    assert sorted(hold.id.id for hold in backend.erasure_targets.held_mentions([BOB])) == ["e1", "e2"]
    assert sorted(hold.id.id for hold in backend.erasure_targets.held_mentions([BOB, EVE])) == ["e1", "e2", "e3"]
    assert [*backend.erasure_targets.held_mentions([UserId("nova")])] == []


def test_blanked_event_stays_blank_and_others_are_unchanged(backend: Backend) -> None:
    holds = [held_mention(f"e{n}") for n in range(3)]
    backend.held_mentions.put([*holds, held_mention("other", EVE)])
    for _ in range(2):
        backend.erasure_targets.erase_held_texts(holds)
    backend.held_mentions.put(holds)
    assert [*backend.erasure_targets.held_mentions([BOB])] == []
    assert {hold.id.id: hold.event and hold.event.text for hold in backend.held_mentions.waiting()} == {
        "e0": "",
        "e1": "",
        "e2": "",
        "other": "hello @nova",
    }
    assert backend.held_mentions.by_event_id(["e1"]) == [holds[1].without_text]
    assert backend.held_mentions.decide(holds[1].id, ModerationDecision.RELEASED, "grace", START)
    assert backend.held_mentions.by_event_id(["e1"]) == [
        replace(holds[1].without_text, decision=ModerationDecision.RELEASED)
    ]


def test_all_of_many_held_events_are_found(backend: Backend) -> None:
    holds = [held_mention(f"e{n}") for n in range(501)]
    backend.held_mentions.put(holds)
    assert len([*backend.erasure_targets.held_mentions([BOB])]) == 501
    backend.erasure_targets.erase_held_texts(holds[:500])
    assert [hold.id.id for hold in backend.erasure_targets.held_mentions([BOB])] == ["e500"]


def test_expired_held_event_has_no_text(backend: Backend) -> None:
    hold = held_mention("e1")
    backend.held_mentions.put([hold])
    backend.clock.advance(MAX_DECISION_WAIT + timedelta(seconds=1))
    backend.erasure_targets.erase_held_texts([hold])
    assert [hold_.event and hold_.event.text for hold_ in backend.held_mentions.by_event_id(["e1"])] in ([None], [""])


def test_dead_letters_are_found_and_emptied_for_good(backend: Backend) -> None:
    dead_letters = [dead_letter(f"mentions/0#{n}", pack(event(f"e{n}"))) for n in range(3)]
    for letter in dead_letters:
        backend.dead_letters.put(letter)
    assert sorted(backend.erasure_targets.dead_letters(), key=lambda letter: letter.id) == dead_letters
    for _ in range(2):
        backend.erasure_targets.erase_letter_bodies(dead_letters[:2])
        backend.dead_letters.put(dead_letters[0])
    assert [*backend.erasure_targets.dead_letters()] == dead_letters[2:]
    stored = sorted(backend.dead_letters.list(10), key=lambda letter: letter.id)
    assert stored == [*(replace(letter, body=b"") for letter in dead_letters[:2]), dead_letters[2]]


def test_name_is_found_as_whole_word_or_anywhere_in_unreadable_body() -> None:
    body = pack({"author": "bob", "nested": [{"eve": 1}], "raw": b"by ada"})
    assert [contains_user(body, [user]) for user in ("bob", "eve", "ada", "bo", "autho", "nested")] == [
        *[True] * 3,
        *[False] * 2,
        True,
    ]
    assert (contains_user(b"\xc1 by bob", ["eve", "bob"]), contains_user(b"\xc1 by bob", ["eve"])) == (True, False)
