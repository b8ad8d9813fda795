"""Held mentions wait for a decision and are published once after release, despite crashes."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from notifier import topics
from notifier.codec import pack
from notifier.domain.bursts.events_and_mentions import EventId, LoggedEvent
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import MentionRefusal, MentionsAllowed, Verdict
from notifier.domain.errors import LogUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.flow.intake.held_mention_release import HeldMentionRelease, with_current_text
from notifier.flow.operations.event_status import EventStatus
from notifier.ports.event_log_and_dead_letters import Record
from notifier.wiring.intake import build_router
from tests.flow.event_status_and_mention_counts import mention_counts, status_of
from tests.flow.in_memory_graph_indexer import Fuse
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import Stage


def release(stage: Stage, *holds: HeldMention, **ports: Any) -> list[HeldMention]:
    return list(HeldMentionRelease.of(stage.system(**ports).ports)(holds or stage.held(), "amy"))


def stage_with_held_mention(*mentioned: str, author: str = "bob") -> Stage:
    """Return a stage with the held event `e1`."""
    stage = Stage()
    stage.reach(author, Verdict.HOLD)
    stage.tweet(*(mentioned or ("nova",)), author=author, id="e1")
    stage.sequence()
    return stage


def test_held_mention_reaches_nobody_and_is_stored_whole() -> None:
    stage = stage_with_held_mention("nova", "ghost", "lyra")
    assert mention_counts(stage) == {}
    [hold] = stage.held()
    assert (hold.author, hold.accounts) == ("bob", ("nova", "lyra"))
    assert hold.event is not None
    assert (hold.event.id, hold.event.mentioned) == (EventId("tweets", "e1"), ("nova", "ghost", "lyra"))
    held = (MentionRefusal.HELD, 0)
    refusals = {"nova": held, "lyra": held, "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, refusals)


def test_released_mention_opens_its_burst() -> None:
    stage = stage_with_held_mention("nova", "ghost")
    assert [hold.id.id for hold in release(stage)] == ["e1"]
    assert stage.held() == []
    stage.pass_time(seconds=5)
    status, accounts = status_of(stage, "e1")
    assert (status, accounts["nova"]) == (EventStatus.SEQUENCED, (None, 0))
    stage.sequence()
    assert mention_counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}
    assert status_of(stage, "e1")[1] == {"nova": (None, 2), "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}
    stage.deliver()
    assert stage.sees("kim") == ["mention:nova#1"]


def test_mention_released_after_days_opens_at_its_release() -> None:
    stage = stage_with_held_mention()
    stage.pass_time(days=5)
    now = stage.state.clock.now()
    release(stage)
    stage.sequence()
    burst = stage.state.bursts.by_key[stage.bursts()[0]]
    assert (burst.opened_at, burst.accepted_at) == (now, now)


def test_second_release_has_no_effect() -> None:
    stage = stage_with_held_mention()
    [hold] = stage.held()
    assert release(stage, hold) == [hold]
    assert release(stage, hold) == []
    stage.sequence()
    assert mention_counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}
    assert stage.state.held_mentions.audit == [("amy", ModerationDecision.RELEASED, hold.id)]


def test_resent_event_does_not_undo_a_release() -> None:
    """The gateway has forgotten the event id."""
    stage = stage_with_held_mention()
    release(stage)
    stage.sequence()
    stage.state.recent_events.wipe()
    stage.tweet("nova", author="bob", id="e1")
    stage.sequence()
    assert (stage.held(), mention_counts(stage)["mention:nova#1"]) == ([], 1)


def resend_event(stage: Stage) -> None:
    """Send the event again days later, when its author's verdict allows all mentions."""
    stage.reach("bob", Verdict.ALL)
    stage.pass_time(days=3)
    stage.state.recent_events.wipe()
    stage.tweet("nova", "lyra", author="bob", id="e1")
    stage.sequence()


def test_resent_event_stays_held_after_the_verdict_changed() -> None:
    stage = stage_with_held_mention("nova", "lyra")
    [hold] = stage.held()
    resend_event(stage)
    assert (stage.held(), mention_counts(stage)) == ([hold], {})
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.HELD, 0), "lyra": (MentionRefusal.HELD, 0)}
    release(stage)
    stage.sequence()
    assert (stage.held(), mention_counts(stage)["mention:nova#1"]) == ([], 1)


@pytest.mark.parametrize("expired", [False, True])
def test_resent_event_does_not_undo_a_drop(expired: bool) -> None:
    stage = stage_with_held_mention()
    [hold] = stage.held()
    if expired:
        stage.state.clock.advance(MAX_DECISION_WAIT)
    else:
        stage.state.held_mentions.decide(hold.id, ModerationDecision.DROPPED, "amy", stage.state.clock.now())
    resend_event(stage)
    assert (stage.held(), mention_counts(stage)) == ([], {})
    assert status_of(stage, "e1")[1]["nova"] == (MentionRefusal.DENIED, 0)
    stage.tweet("nova", author="bob", id="e2")
    stage.sequence()
    assert mention_counts(stage)["mention:nova#1"] == 1


def test_drop_wins_over_an_unfinished_release() -> None:
    """The releasing process crashed before it stored the decision, and another operator dropped the mention."""
    stage = stage_with_held_mention()
    [hold] = stage.held()
    with pytest.raises(StoreUnavailable):
        release(stage, hold, held_mentions=FailingPort(stage.state.held_mentions, StoreUnavailable))
    stage.state.held_mentions.decide(hold.id, ModerationDecision.DROPPED, "bea", stage.state.clock.now())
    stage.sequence()
    assert (stage.held(), mention_counts(stage)) == ([], {})


def test_mention_stays_held_after_router_crash_and_new_verdict() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="e1")
    [waiting] = stage.state.log.read_uncommitted(topics.MENTIONS, "router", 9)
    build_router(stage.system())([waiting])
    stage.reach("bob", Verdict.ALL)
    stage.sequence()
    assert (len(stage.held()), mention_counts(stage)) == (1, {})


def test_router_crash_does_not_hold_a_released_mention_again() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="e1")
    [waiting] = stage.state.log.read_uncommitted(topics.MENTIONS, "router", 9)
    build_router(stage.system())([waiting])
    release(stage)
    stage.sequence()
    assert (stage.held(), mention_counts(stage)) == ([], {"self:nova#1": 1, "mention:nova#1": 1})


@pytest.mark.parametrize("calls", range(5))
def test_release_after_a_crash_publishes_once(calls: int) -> None:
    stage = stage_with_held_mention()
    fuse = Fuse(calls)
    crashing = HeldMentionRelease(
        log=fuse.on(stage.state.log), held_mentions=fuse.on(stage.state.held_mentions), clock=stage.state.clock
    )
    try:
        crashing(stage.held(), "amy")
    except StoreUnavailable:
        stage.sequence()
        # A crash loses nothing: a mention that was not sent still waits.
        assert stage.held() or stage.bursts()
        release(stage)
    stage.sequence()
    assert (stage.held(), mention_counts(stage)) == ([], {"self:nova#1": 1, "mention:nova#1": 1})


@pytest.mark.parametrize("calls", range(8))
def test_router_crash_loses_no_held_mention(calls: int) -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", "ghost", author="bob", id="e1")
    fuse, state = Fuse(calls), stage.state
    router = build_router(
        stage.system(
            held_mentions=fuse.on(state.held_mentions),
            bursts=fuse.on(state.bursts),
            directory=fuse.on(state.directory),
            author_verdicts=fuse.on(state.author_verdicts),
        )
    )
    with suppress(StoreUnavailable):
        router(list(state.log.read_uncommitted(topics.MENTIONS, "router", 9)))
    stage.sequence()
    assert [hold.accounts for hold in stage.held()] == [("nova",)]
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.HELD, 0), "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}


@pytest.mark.parametrize(("port", "error"), [("log", LogUnavailable), ("held_mentions", StoreUnavailable)])
def test_release_during_an_outage_leaves_the_mention_held(port: str, error: type[NotifierError]) -> None:
    stage = stage_with_held_mention()
    with pytest.raises(error):
        release(stage, *stage.held(), **{port: FailingPort(getattr(stage.state, port), error)})
    assert len(stage.held()) == 1


def test_deny_verdict_wins_over_a_release() -> None:
    stage = stage_with_held_mention()
    stage.reach("bob", Verdict.DENY)
    release(stage)
    stage.sequence()
    assert mention_counts(stage) == {}
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, {"nova": (MentionRefusal.DENIED, 0)})


def test_released_mention_is_refused_by_account_preference() -> None:
    stage = stage_with_held_mention()
    stage.state.people.patch_account(UserId("nova"), AccountPreferencesPatch(mentions=MentionsAllowed.NONE))
    release(stage)
    stage.sequence()
    assert mention_counts(stage) == {"self:nova#1": 1}
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.NOT_WANTED, 1)}


def test_dropped_mention_has_status_denied() -> None:
    stage = stage_with_held_mention()
    [hold] = stage.held()
    assert stage.state.held_mentions.decide(hold.id, ModerationDecision.DROPPED, "amy", stage.state.clock.now())
    assert release(stage, hold) == []
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, {"nova": (MentionRefusal.DENIED, 0)})


def test_held_mention_is_dropped_after_thirty_days() -> None:
    stage = stage_with_held_mention()
    [hold] = stage.held()
    stage.state.clock.advance(MAX_DECISION_WAIT)
    assert (stage.held(), release(stage, hold)) == ([], [])
    stage.sequence()
    assert (mention_counts(stage), status_of(stage, "e1")[1]) == ({}, {"nova": (MentionRefusal.DENIED, 0)})


def test_retracted_held_mention_has_no_text_and_no_burst() -> None:
    stage = stage_with_held_mention()
    stage.tweet("nova", author="bob", id="e2")
    stage.sequence()
    retractions = stage.state.retractions
    held_with_text = [replace(hold, event=hold.event and replace(hold.event, text="hello")) for hold in stage.held()]
    assert with_current_text(retractions, held_with_text) == held_with_text
    stage.send_event(DELETED_TYPE, tweet="t1", author="bob")
    assert [hold.event and hold.event.text for hold in with_current_text(retractions, held_with_text)] == ["", ""]
    release(stage)
    stage.sequence()
    assert (stage.held(), mention_counts(stage)) == ([], {})
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.RETRACTED, 0)}


def test_event_from_tweet_service_does_not_release_a_held_mention() -> None:
    stage = stage_with_held_mention()
    [hold] = stage.held()
    assert hold.event is not None
    again = LoggedEvent.for_release(hold.event, stage.state.clock.now())
    assert (again.upstream_event.id, again.released, again.upstream_event) == (
        hold.id,
        True,
        replace(hold.event, accepted_at=again.accepted_at),
    )
    stage.state.log.append([Record(stream=topics.MENTIONS, key="e1", value=pack(again.upstream_event))])
    stage.sequence()
    assert (stage.held(), mention_counts(stage)) == ([hold], {})
