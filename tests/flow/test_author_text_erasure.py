"""Erasure removes an author's text from every store, after crashes and against late events."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from notifier.codec import pack
from notifier.domain.bursts.held_mention import ModerationDecision
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.bursts.retraction import RetractionCause, tweet_key
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import EDITED_TYPE, ERASED_TYPE
from notifier.flow.intake.held_mention_release import HeldMentionRelease
from notifier.ports.event_log_and_dead_letters import DeadLetter
from notifier.wiring.sequencing import build_retractor
from tests.flow.event_status_and_mention_counts import status_of
from tests.flow.in_memory_graph_indexer import Fuse
from tests.flow.port_with_callback import RunsAfterCall
from tests.support.failing_and_corrupt_ports import FailingHeads, FailingPort
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import Stage

BOB = UserId("bob")
TEXTS = ("bob's first", "bob's second", "bob edits")


def erase(stage: Stage, user: str = "bob") -> None:
    stage.send_event(ERASED_TYPE, user=user)


def stage_with_text_of_bob() -> Stage:
    """Bob: two mentions (one edited), a decided and a waiting held mention, a dead letter. Others wrote more."""
    stage = Stage()
    stage.mention("nova", author="bob", of=TEXTS[0])
    stage.mention("nova", "lyra", author="bob", of=TEXTS[1])
    stage.send_event(EDITED_TYPE, tweet=TEXTS[1], author="bob", mentions=["lyra"], text=TEXTS[2], sequence=1)
    stage.mention("nova", author="ada", of="ada's")
    stage.reach("bob", Verdict.HOLD)
    for id in ("held1", "held2"):
        stage.tweet("nova", author="bob", of=TEXTS[0], id=id)
    stage.sequence()
    stage.state.held_mentions.decide(stage.held()[0].id, ModerationDecision.DROPPED, "amy", stage.state.clock.now())
    for n, author in enumerate(("bob", "eve")):
        body = pack({"author": author, "text": TEXTS[0]})
        stage.state.dead_letters.put(DeadLetter(id=f"l{n}", stage="router", cause="Poison", body=body, at=START))
    return stage


def run_stage(stage: Stage, stream: str, **ports: Any) -> None:
    stage.pump(stream, **ports).step()


def remaining_texts(stage: Stage) -> set[str]:
    """Return the texts of bob that are left in any store."""
    state = stage.state
    heads = state.heads.load({key.subject for key in state.bursts.by_key}).values()
    keys = [tweet_key(BOB, tweet) for tweet in TEXTS]
    texts = {
        *(mention.text for mention in state.bursts.mentions.values()),
        *(burst.text for burst in state.bursts.by_key.values()),
        *(hold.event.text for id in ("held1", "held2") for hold in state.held_mentions.by_event_id([id]) if hold.event),
        *(retraction.text for retraction in state.retractions.read_current(keys).values()),
        *(burst.text for head in heads for burst in (head.open, *head.outbox) if burst),
        *(entry.mention.text for head in heads for entry in (*head.sequenced, *head.changed)),
        *(
            text
            for text in TEXTS
            for letter in state.dead_letters.list(10)
            if letter.id == "l0" and text.encode() in letter.body
        ),
    }
    return texts.intersection(TEXTS)


def test_erasure_removes_only_texts_of_that_author() -> None:
    stage = stage_with_text_of_bob()
    assert remaining_texts(stage) == {*TEXTS} - {"bob's second"}
    erase(stage)
    stage.sequence()
    assert remaining_texts(stage) == set()
    assert "ada's" in {mention.text for mention in stage.state.bursts.mentions.values()}
    assert [letter.id for letter in stage.state.dead_letters.list(10) if letter.body] == ["l1"]
    assert len(stage.state.dead_letters.list(10)) == 2
    assert [hold.id.id for hold in stage.held()] == ["held2"]


def test_repeated_erasure_leaves_no_text() -> None:
    stage = stage_with_text_of_bob()
    for _ in range(2):
        erase(stage)
        stage.sequence()
    assert remaining_texts(stage) == set()


@pytest.mark.parametrize("calls", range(24))
def test_erasure_completes_after_a_crash(calls: int) -> None:
    stage = stage_with_text_of_bob()
    erase(stage)
    fuse, state = Fuse(calls), stage.state
    crashing = stage.pump(
        "retractions",
        erasure_targets=fuse.on(state.erasure_targets),
        retractions=fuse.on(state.retractions),
        bursts=fuse.on(state.bursts),
    )
    with suppress(StoreUnavailable):
        crashing.step()
    crashing.consumer.close()
    stage.sequence()
    assert remaining_texts(stage) == set()


@pytest.mark.parametrize("method", ["put", "held_mentions"])
def test_mention_held_during_erasure_keeps_no_text(method: str) -> None:
    """The router stops right after it held the mention, or the retractor right after it read the held mentions."""
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", of=TEXTS[0], id="held1")
    erase(stage)
    stopped_port, other_stream = (
        (stage.state.held_mentions, "retractions") if method == "put" else (stage.state.erasure_targets, "mentions")
    )
    stalling = RunsAfterCall(stopped_port, method, lambda: run_stage(stage, other_stream))
    if method == "put":
        run_stage(stage, "mentions", held_mentions=stalling)
    else:
        run_stage(stage, "retractions", erasure_targets=stalling)
    assert stalling.called
    stage.sequence()
    assert remaining_texts(stage) == set()


def test_late_edit_after_erasure_leaves_no_text() -> None:
    stage = stage_with_text_of_bob()
    edit: dict[str, Any] = {"tweet": TEXTS[0], "author": "bob", "mentions": [], "text": TEXTS[2], "sequence": 5}
    stage.send_event(EDITED_TYPE, stage.system(heads=FailingHeads(stage.state.heads)), **edit)
    erase(stage)
    stage.sequence()
    assert remaining_texts(stage) == set()
    stage.send_event(EDITED_TYPE, **(edit | {"tweet": TEXTS[2]}))
    stage.sequence()
    assert remaining_texts(stage) == set()
    stage.pass_time(seconds=1)
    stage.send_event(EDITED_TYPE, **(edit | {"tweet": TEXTS[2], "sequence": 6}))
    stage.sequence()
    assert remaining_texts(stage) == set()  # its tweet has been deleted


def test_released_mention_of_erased_author_is_retracted() -> None:
    stage = stage_with_text_of_bob()
    erase(stage)
    stage.sequence()
    [hold] = stage.held()
    HeldMentionRelease.of(stage.system().ports)([hold], "amy")
    stage.sequence()
    assert status_of(stage, "held2")[1]["nova"][0] is MentionRefusal.RETRACTED


def test_new_held_mention_after_erasure_keeps_its_text() -> None:
    stage = stage_with_text_of_bob()
    erase(stage)
    stage.sequence()
    stage.pass_time(seconds=1)
    stage.tweet("nova", author="bob", of="bob is back", id="held3")
    stage.sequence()
    [held] = stage.state.held_mentions.by_event_id(["held3"])
    assert held.event is not None
    assert held.event.text == "bob is back"
    assert [hold.id.id for hold in stage.state.erasure_targets.held_mentions([BOB])] == ["held3"]


def test_repeated_erasure_event_keeps_newer_texts() -> None:
    stage = Stage()
    erase(stage)
    records = [*stage.pump("retractions").consumer.poll(10, timedelta(0))]
    stage.sequence()
    stage.pass_time(seconds=1)
    stage.mention("nova", "lyra", author="bob", of="bob is back")
    stage.send_event(EDITED_TYPE, tweet="bob is back", author="bob", mentions=["nova"], text="bob edits", sequence=1)
    stage.sequence()
    build_retractor(stage.system())(records)
    [retraction] = stage.state.retractions.read_current([tweet_key(BOB, "bob is back")]).values()
    assert (retraction.cause, retraction.text) == (RetractionCause.EDIT, "bob edits")


def test_unreadable_head_does_not_stop_erasure_elsewhere() -> None:
    stage = stage_with_text_of_bob()
    erase(stage)
    stage.pump("retractions", heads=FailingPort(stage.state.heads, Poison)).step()
    assert stage.held()[0].event is not None
    assert [hold.id.id for hold in stage.state.erasure_targets.held_mentions([BOB])] == []
    assert [letter.id for letter in stage.state.dead_letters.list(10) if letter.id == "l0" and letter.body] == []


@dataclass
class Counting:
    """Counts the calls of a port by method."""

    port: object
    calls: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self.port, name)


def test_erasures_of_one_batch_share_one_scan() -> None:
    stage = stage_with_text_of_bob()
    stage.reach("eve", Verdict.HOLD)
    stage.tweet("nova", author="eve", of="eve's", id="held3")
    stage.sequence()
    for user in ("bob", "eve", "bob"):
        erase(stage, user)
    counting = Counting(stage.state.erasure_targets)
    run_stage(stage, "retractions", erasure_targets=counting)
    assert (counting.calls["held_mentions"], counting.calls["dead_letters"]) == (1, 1)
    assert remaining_texts(stage) == set()
    assert [*stage.state.erasure_targets.held_mentions([UserId("eve")])] == []
    assert [letter.body for letter in stage.state.dead_letters.list(10)] == [b"", b""]


def test_erased_texts_are_counted() -> None:
    stage = stage_with_text_of_bob()
    erase(stage)
    system = stage.system()
    build_retractor(system)([*stage.pump("retractions").consumer.poll(10, timedelta(0))])
    counted = {kind: system.metrics.erased.labels(kind)._value.get() for kind in ("held", "dead_letter", "edit")}
    assert counted == {"held": 2, "dead_letter": 1, "edit": 1}
