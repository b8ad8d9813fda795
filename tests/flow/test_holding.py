"""A mention that is held waits, and is told once when it is let go, whoever dies on the way."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from notifier import topics
from notifier.codec import pack
from notifier.domain.bursts.held_mention import WAITS, HeldMention, ModerationDecision
from notifier.domain.bursts.mention import Arrival, EventId
from notifier.domain.bursts.moderation import MentionRefusal, MentionsAllowed, Verdict
from notifier.domain.errors import LogUnavailable, NotifierError, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import DELETED_TYPE
from notifier.domain.users.account_preferences import OverallWish
from notifier.flow.intake.held_mentions import Release, with_current_text
from notifier.flow.operations.event_status import EventStatus
from notifier.ports.event_log import Record
from notifier.wiring.intake import build_router
from tests.flow.event_statuses import counts, status_of
from tests.flow.graph import Fuse
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import Stage


def release(stage: Stage, *holds: HeldMention, **ports: Any) -> list[HeldMention]:
    return list(Release.of(stage.system(**ports).ports)(holds or stage.held(), "amy"))


def holding(*mentioned: str, author: str = "bob") -> Stage:
    """Event `e1`, held."""
    stage = Stage()
    stage.reach(author, Verdict.HOLD)
    stage.tweet(*(mentioned or ("nova",)), author=author, id="e1")
    stage.sequence()
    return stage


def test_a_held_mention_reaches_nobody_and_waits_whole() -> None:
    stage = holding("nova", "ghost", "lyra")
    assert counts(stage) == {}
    [hold] = stage.held()
    assert (hold.author, hold.accounts) == ("bob", ("nova", "lyra"))
    assert hold.event is not None
    assert (hold.event.id, hold.event.mentioned) == (EventId("tweets", "e1"), ("nova", "ghost", "lyra"))
    held = (MentionRefusal.HELD, 0)
    told = {"nova": held, "lyra": held, "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, told)


def test_let_go_it_has_its_burst_and_is_held_no_longer() -> None:
    stage = holding("nova", "ghost")
    assert [hold.id.id for hold in release(stage)] == ["e1"]
    assert stage.held() == []
    stage.pass_time(seconds=5)
    status, accounts = status_of(stage, "e1")
    assert (status, accounts["nova"]) == (EventStatus.SEQUENCED, (None, 0))
    stage.sequence()
    assert counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}
    assert status_of(stage, "e1")[1] == {"nova": (None, 2), "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}
    stage.deliver()
    assert stage.sees("kim") == ["mention:nova#1"]


def test_one_that_waited_for_days_opens_now_and_is_late_for_nobody() -> None:
    stage = holding()
    stage.pass_time(days=5)
    now = stage.ground.clock.now()
    release(stage)
    stage.sequence()
    burst = stage.ground.bursts.by_key[stage.bursts()[0]]
    assert (burst.opened_at, burst.accepted_at) == (now, now)


def test_let_go_twice_it_is_told_once() -> None:
    stage = holding()
    [hold] = stage.held()
    assert release(stage, hold) == [hold]
    assert release(stage, hold) == []
    stage.sequence()
    assert counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}
    assert stage.ground.holds.audit == [("amy", ModerationDecision.RELEASED, hold.id)]


def test_sent_again_by_the_tweet_service_it_stays_decided() -> None:
    """Also after the day for which the gateway remembers."""
    stage = holding()
    release(stage)
    stage.sequence()
    stage.ground.recent.wipe()
    stage.tweet("nova", author="bob", id="e1")
    stage.sequence()
    assert (stage.held(), counts(stage)["mention:nova#1"]) == ([], 1)


def come_again(stage: Stage) -> None:
    """The event, days later, from a tweet service that never heard that it was taken; its author may be heard again."""
    stage.reach("bob", Verdict.ALL)
    stage.pass_time(days=3)
    stage.ground.recent.wipe()
    stage.tweet("nova", "lyra", author="bob", id="e1")
    stage.sequence()


def test_what_waits_goes_on_waiting_when_it_comes_again_though_its_author_may_be_heard_by_then() -> None:
    stage = holding("nova", "lyra")
    [hold] = stage.held()
    come_again(stage)
    assert (stage.held(), counts(stage)) == ([hold], {})
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.HELD, 0), "lyra": (MentionRefusal.HELD, 0)}
    release(stage)
    stage.sequence()
    assert (stage.held(), counts(stage)["mention:nova#1"]) == ([], 1)


@pytest.mark.parametrize("lapsed", [False, True])
def test_what_was_dropped_stays_so_when_it_comes_again(lapsed: bool) -> None:
    stage = holding()
    [hold] = stage.held()
    if lapsed:
        stage.ground.clock.advance(WAITS)
    else:
        stage.ground.holds.decide(hold.id, ModerationDecision.DROPPED, "amy", stage.ground.clock.now())
    come_again(stage)
    assert (stage.held(), counts(stage)) == ([], {})
    assert status_of(stage, "e1")[1]["nova"] == (MentionRefusal.DENIED, 0)
    stage.tweet("nova", author="bob", id="e2")
    stage.sequence()
    assert counts(stage)["mention:nova#1"] == 1


def test_what_is_dropped_before_a_router_comes_to_its_release_stays_so() -> None:
    """Who let it go died before the decision stood, and somebody else dropped it."""
    stage = holding()
    [hold] = stage.held()
    with pytest.raises(StoreUnavailable):
        release(stage, hold, holds=Refusing(stage.ground.holds, StoreUnavailable))
    stage.ground.holds.decide(hold.id, ModerationDecision.DROPPED, "bea", stage.ground.clock.now())
    stage.sequence()
    assert (stage.held(), counts(stage)) == ([], {})


def test_a_router_that_holds_and_dies_finds_it_held_though_its_author_may_be_heard_by_then() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="e1")
    [waiting] = stage.ground.log.waiting(topics.MENTIONS, "router", 9)
    build_router(stage.system())([waiting])
    stage.reach("bob", Verdict.ALL)
    stage.sequence()
    assert (len(stage.held()), counts(stage)) == (1, {})


def test_a_router_that_died_before_its_commit_holds_it_once_and_undoes_no_decision() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="e1")
    [waiting] = stage.ground.log.waiting(topics.MENTIONS, "router", 9)
    build_router(stage.system())([waiting])
    release(stage)
    stage.sequence()
    assert (stage.held(), counts(stage)) == ([], {"self:nova#1": 1, "mention:nova#1": 1})


@pytest.mark.parametrize("calls", range(5))
def test_cut_off_anywhere_a_release_can_be_done_again_and_tells_once(calls: int) -> None:
    stage = holding()
    fuse = Fuse(calls)
    cut = Release(log=fuse.on(stage.ground.log), holds=fuse.on(stage.ground.holds), clock=stage.ground.clock)
    try:
        cut(stage.held(), "amy")
    except StoreUnavailable:
        stage.sequence()
        # Nothing is lost by it: what wasn't sent still waits.
        assert stage.held() or stage.bursts()
        release(stage)
    stage.sequence()
    assert (stage.held(), counts(stage)) == ([], {"self:nova#1": 1, "mention:nova#1": 1})


@pytest.mark.parametrize("calls", range(8))
def test_a_router_that_is_cut_off_anywhere_loses_nothing_that_is_held(calls: int) -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", "ghost", author="bob", id="e1")
    fuse, g = Fuse(calls), stage.ground
    router = build_router(
        stage.system(
            holds=fuse.on(g.holds), bursts=fuse.on(g.bursts), directory=fuse.on(g.directory), reaches=fuse.on(g.reaches)
        )
    )
    with suppress(StoreUnavailable):
        router(list(g.log.waiting(topics.MENTIONS, "router", 9)))
    stage.sequence()
    assert [hold.accounts for hold in stage.held()] == [("nova",)]
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.HELD, 0), "ghost": (MentionRefusal.UNKNOWN_ACCOUNT, 0)}


@pytest.mark.parametrize(("port", "error"), [("log", LogUnavailable), ("holds", StoreUnavailable)])
def test_a_release_that_meets_an_outage_leaves_it_waiting(port: str, error: type[NotifierError]) -> None:
    stage = holding()
    with pytest.raises(error):
        release(stage, *stage.held(), **{port: Refusing(getattr(stage.ground, port), error)})
    assert len(stage.held()) == 1


def test_a_deny_that_was_said_meanwhile_counts_more_than_a_release() -> None:
    stage = holding()
    stage.reach("bob", Verdict.DENY)
    release(stage)
    stage.sequence()
    assert counts(stage) == {}
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, {"nova": (MentionRefusal.DENIED, 0)})


def test_what_was_let_go_is_still_refused_where_nobody_wants_it() -> None:
    stage = holding()
    stage.ground.people.arrange(UserId("nova"), OverallWish(mentions=MentionsAllowed.NONE))
    release(stage)
    stage.sequence()
    assert counts(stage) == {"self:nova#1": 1}
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.NOT_WANTED, 1)}


def test_what_is_dropped_reaches_nobody_and_is_told_as_denied() -> None:
    stage = holding()
    [hold] = stage.held()
    assert stage.ground.holds.decide(hold.id, ModerationDecision.DROPPED, "amy", stage.ground.clock.now())
    assert release(stage, hold) == []
    assert status_of(stage, "e1") == (EventStatus.SEQUENCED, {"nova": (MentionRefusal.DENIED, 0)})


def test_what_nobody_lets_go_within_thirty_days_is_dropped() -> None:
    stage = holding()
    [hold] = stage.held()
    stage.ground.clock.advance(WAITS)
    assert (stage.held(), release(stage, hold)) == ([], [])
    stage.sequence()
    assert (counts(stage), status_of(stage, "e1")[1]) == ({}, {"nova": (MentionRefusal.DENIED, 0)})


def test_what_was_taken_back_while_it_waits_shows_no_text_and_is_told_to_nobody() -> None:
    stage = holding()
    stage.tweet("nova", author="bob", id="e2")
    stage.sequence()
    retractions = stage.ground.retractions
    said = [replace(hold, event=hold.event and replace(hold.event, text="hello")) for hold in stage.held()]
    assert with_current_text(retractions, said) == said
    stage.say(DELETED_TYPE, tweet="t1", author="bob")
    assert [hold.event and hold.event.text for hold in with_current_text(retractions, said)] == ["", ""]
    release(stage)
    stage.sequence()
    assert (stage.held(), counts(stage)) == ([], {})
    assert status_of(stage, "e1")[1] == {"nova": (MentionRefusal.RETRACTED, 0)}


def test_a_release_is_nothing_that_a_tweet_service_can_say() -> None:
    stage = holding()
    [hold] = stage.held()
    assert hold.event is not None
    again = Arrival.again(hold.event, stage.ground.clock.now())
    assert (again.told.id, again.released, again.told) == (
        hold.id,
        True,
        replace(hold.event, accepted_at=again.accepted_at),
    )
    stage.ground.log.append([Record(stream=topics.MENTIONS, key="e1", value=pack(again.told))])
    stage.sequence()
    assert (stage.held(), counts(stage)) == ([hold], {})
