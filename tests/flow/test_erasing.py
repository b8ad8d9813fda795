"""Of who was erased no word is left in the store, whoever dies on the way, and whatever comes late."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from notifier.codec import pack
from notifier.domain.bursts.held_mention import ModerationDecision
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.bursts.retraction import RetractionCause, tweet_trail
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import EDITED_TYPE, ERASED_TYPE
from notifier.flow.intake.held_mentions import Release
from notifier.ports.event_log import DeadLetter
from notifier.wiring.sequencing import build_retractor
from tests.flow.event_statuses import status_of
from tests.flow.graph import Fuse
from tests.flow.stalling import Stalling
from tests.support.failing_ports import Refusing, Unswapped
from tests.support.fakes.clock import START
from tests.support.in_memory_system import Stage

BOB = UserId("bob")
WORDS = ("bob's first", "bob's second", "bob edits")


def erase(stage: Stage, user: str = "bob") -> None:
    stage.say(ERASED_TYPE, user=user)


def spoken() -> Stage:
    """By bob: two mentions, one of them edited, one held and decided, one that waits, a letter. By others more."""
    stage = Stage()
    stage.mention("nova", author="bob", of=WORDS[0])
    stage.mention("nova", "lyra", author="bob", of=WORDS[1])
    stage.say(EDITED_TYPE, tweet=WORDS[1], author="bob", mentions=["lyra"], text=WORDS[2], sequence=1)
    stage.mention("nova", author="ada", of="ada's")
    stage.reach("bob", Verdict.HOLD)
    for id in ("held1", "held2"):
        stage.tweet("nova", author="bob", of=WORDS[0], id=id)
    stage.sequence()
    stage.ground.holds.decide(stage.held()[0].id, ModerationDecision.DROPPED, "amy", stage.ground.clock.now())
    for n, author in enumerate(("bob", "eve")):
        body = pack({"author": author, "text": WORDS[0]})
        stage.ground.dead_letters.put(DeadLetter(id=f"l{n}", stage="router", cause="Poison", body=body, at=START))
    return stage


def run(stage: Stage, stream: str, **ports: Any) -> None:
    stage.pump(stream, **ports).step()


def words_left(stage: Stage) -> set[str]:
    """Of all texts that the store has, wherever, those of bob."""
    g = stage.ground
    heads = g.heads.load({key.subject for key in g.bursts.by_key}).values()
    trails = [tweet_trail(BOB, tweet) for tweet in WORDS]
    found = {
        *(mention.text for mention in g.bursts.mentions.values()),
        *(burst.text for burst in g.bursts.by_key.values()),
        *(hold.event.text for id in ("held1", "held2") for hold in g.holds.of([id]) if hold.event),
        *(word.text for word in g.retractions.standing(trails).values()),
        *(burst.text for head in heads for burst in (head.open, *head.outbox) if burst),
        *(one.mention.text for head in heads for one in (*head.sequenced, *head.changed)),
        *(word for word in WORDS for one in g.dead_letters.list(10) if one.id == "l0" and word.encode() in one.body),
    }
    return found.intersection(WORDS)


def test_no_word_is_left_of_who_was_erased_and_everybody_else_s_are() -> None:
    stage = spoken()
    assert words_left(stage) == {*WORDS} - {"bob's second"}
    erase(stage)
    stage.sequence()
    assert words_left(stage) == set()
    assert "ada's" in {mention.text for mention in stage.ground.bursts.mentions.values()}
    assert [one.id for one in stage.ground.dead_letters.list(10) if one.body] == ["l1"]
    assert len(stage.ground.dead_letters.list(10)) == 2
    assert [hold.id.id for hold in stage.held()] == ["held2"]


def test_the_same_read_again_finds_nothing_more() -> None:
    stage = spoken()
    for _ in range(2):
        erase(stage)
        stage.sequence()
    assert words_left(stage) == set()


@pytest.mark.parametrize("calls", range(24))
def test_whoever_dies_on_the_way_is_gone_on_with(calls: int) -> None:
    stage = spoken()
    erase(stage)
    fuse, g = Fuse(calls), stage.ground
    dying = stage.pump(
        "retractions", traces=fuse.on(g.traces), retractions=fuse.on(g.retractions), bursts=fuse.on(g.bursts)
    )
    with suppress(StoreUnavailable):
        dying.step()
    dying.consumer.close()
    stage.sequence()
    assert words_left(stage) == set()


@pytest.mark.parametrize("method", ["put", "held"])
def test_what_is_held_while_its_author_is_erased_has_no_words_when_it_is_done(method: str) -> None:
    """The router has held it before the retractor looks, or has yet to; or it did so after that, and then asks."""
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", of=WORDS[0], id="held1")
    erase(stage)
    stopped, others = (stage.ground.holds, "retractions") if method == "put" else (stage.ground.traces, "mentions")
    stalling = Stalling(stopped, method, lambda: run(stage, others))
    if method == "put":
        run(stage, "mentions", holds=stalling)
    else:
        run(stage, "retractions", traces=stalling)
    assert stalling.stopped
    stage.sequence()
    assert words_left(stage) == set()


def test_an_edit_of_before_that_comes_behind_the_erasure_leaves_no_words() -> None:
    stage = spoken()
    edit: dict[str, Any] = {"tweet": WORDS[0], "author": "bob", "mentions": [], "text": WORDS[2], "sequence": 5}
    stage.say(EDITED_TYPE, stage.system(heads=Unswapped(stage.ground.heads)), **edit)
    erase(stage)
    stage.sequence()
    assert words_left(stage) == set()
    stage.say(EDITED_TYPE, **(edit | {"tweet": WORDS[2]}))
    stage.sequence()
    assert words_left(stage) == set()
    stage.pass_time(seconds=1)
    stage.say(EDITED_TYPE, **(edit | {"tweet": WORDS[2], "sequence": 6}))
    stage.sequence()
    assert words_left(stage) == set()  # of a tweet that was deleted by then


def test_what_was_held_and_erased_is_told_to_nobody_when_it_is_let_go() -> None:
    stage = spoken()
    erase(stage)
    stage.sequence()
    [hold] = stage.held()
    Release.of(stage.system().ports)([hold], "amy")
    stage.sequence()
    assert status_of(stage, "held2")[1]["nova"][0] is MentionRefusal.RETRACTED


def test_who_writes_again_afterwards_is_held_with_the_words() -> None:
    stage = spoken()
    erase(stage)
    stage.sequence()
    stage.pass_time(seconds=1)
    stage.tweet("nova", author="bob", of="bob is back", id="held3")
    stage.sequence()
    [found] = stage.ground.holds.of(["held3"])
    assert found.event is not None
    assert found.event.text == "bob is back"
    assert [hold.id.id for hold in stage.ground.traces.held([BOB])] == ["held3"]


def test_its_word_that_comes_again_leaves_what_was_written_and_edited_since() -> None:
    stage = Stage()
    erase(stage)
    said = [*stage.pump("retractions").consumer.poll(10, timedelta(0))]
    stage.sequence()
    stage.pass_time(seconds=1)
    stage.mention("nova", "lyra", author="bob", of="bob is back")
    stage.say(EDITED_TYPE, tweet="bob is back", author="bob", mentions=["nova"], text="bob edits", sequence=1)
    stage.sequence()
    build_retractor(stage.system())(said)
    [word] = stage.ground.retractions.standing([tweet_trail(BOB, "bob is back")]).values()
    assert (word.cause, word.text) == (RetractionCause.EDIT, "bob edits")


def test_a_head_that_cant_be_read_keeps_no_words_but_its_own() -> None:
    stage = spoken()
    erase(stage)
    stage.pump("retractions", heads=Refusing(stage.ground.heads, Poison)).step()
    assert stage.held()[0].event is not None
    assert [hold.id.id for hold in stage.ground.traces.held([BOB])] == []
    assert [one.id for one in stage.ground.dead_letters.list(10) if one.id == "l0" and one.body] == []


@dataclass
class Counting:
    port: object
    calls: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self.port, name)


def test_what_is_left_is_looked_through_once_for_all_who_are_erased_together() -> None:
    stage = spoken()
    stage.reach("eve", Verdict.HOLD)
    stage.tweet("nova", author="eve", of="eve's", id="held3")
    stage.sequence()
    for user in ("bob", "eve", "bob"):
        erase(stage, user)
    looks = Counting(stage.ground.traces)
    run(stage, "retractions", traces=looks)
    assert (looks.calls["held"], looks.calls["letters"]) == (1, 1)
    assert words_left(stage) == set()
    assert [*stage.ground.traces.held([UserId("eve")])] == []
    assert [one.body for one in stage.ground.dead_letters.list(10)] == [b"", b""]


def test_it_is_counted() -> None:
    stage = spoken()
    erase(stage)
    system = stage.system()
    build_retractor(system)([*stage.pump("retractions").consumer.poll(10, timedelta(0))])
    counted = {what: system.metrics.erased.labels(what)._value.get() for what in ("held", "dead_letter", "edit")}
    assert counted == {"held": 2, "dead_letter": 1, "edit": 1}
