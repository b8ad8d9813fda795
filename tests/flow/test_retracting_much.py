"""What is taken back of many, and of those who have written much: nothing is lost with it, and nothing left."""

from dataclasses import replace

import pytest

from notifier import topics
from notifier.domain.bursts.burst import KEPT_MENTIONERS
from notifier.domain.bursts.retraction import RetractionCause, tweet_trail
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import ERASED_TYPE
from notifier.flow.sequencing import retraction_settlement
from notifier.wiring.sequencing import build_retraction_settlement
from tests.flow.retractions import Counting, append_to_log_only, burst, delete, deleted, names
from tests.support.failing_ports import Unreadable
from tests.support.in_memory_system import LYRA, Stage


def test_where_more_mentioned_than_are_kept_by_name_somebody_is_still_named() -> None:
    stage = Stage()
    crowd = [f"a{n}" for n in range(KEPT_MENTIONERS + 1)]
    for author in crowd:
        stage.mention("nova", author=author, of=author)
    assert burst(stage).more_mentioners
    for author in crowd[:-1]:
        delete(stage, author, author)
    assert (burst(stage).count, burst(stage).mentioners, burst(stage).tweet) == (1, (crowd[-1],), crowd[-1])


def test_whoever_stays_unnamed_is_not_lost_with_the_named_whose_words_stand_already() -> None:
    """As when a whole crowd is erased at once: all the words stand before the first of them is settled."""
    stage = Stage()
    crowd = [f"a{n}" for n in range(KEPT_MENTIONERS + 1)]
    for author in crowd:
        stage.mention("nova", author=author, of=author)
    words = [deleted(stage, author) for author in crowd[1:-1]]
    stage.ground.retractions.write(words)
    delete(stage, crowd[0], crowd[0])
    assert (burst(stage).count, burst(stage).tweet, burst(stage).opener) == (KEPT_MENTIONERS, crowd[-1], crowd[-1])
    build_retraction_settlement(stage.system()).settle(words)
    assert (burst(stage).count, burst(stage).mentioners) == (1, (crowd[-1],))
    assert names(stage, "kim") == [(crowd[-1],)]


def test_all_that_is_left_to_a_protected_author_s_followers_is_counted_however_it_is_settled() -> None:
    """Some at a time, or because one is on no trail yet as the other is settled."""
    stage = Stage()
    for tweet in ("t1", "t2"):
        stage.mention("nova", author="eve", of=tweet)
    word = replace(deleted(stage, "", "eve"), cause=RetractionCause.PROTECT)
    stage.ground.retractions.write([word])
    for tweet in ("t1", "t2"):
        list(build_retraction_settlement(stage.system()).settle_along([tweet_trail(UserId("eve"), tweet)]))
    assert (burst(stage).count, burst(stage).restricted_to) == (2, "eve")
    delete(stage, "t1", "eve")
    assert (burst(stage).count, burst(stage).tweet) == (1, "t2")
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])


def test_who_waits_for_it_waits_for_the_latest_alone_and_the_log_keeps_the_rest() -> None:
    stage = Stage()
    for n in range(3):
        stage.mention("nova", author="eve", of=f"t{n}", protected=True)
        stage.pass_time(days=1)
    word = replace(deleted(stage, "", "eve"), cause=RetractionCause.ERASE)
    build_retraction_settlement(stage.system()).settle([word], limit=4)  # both for nova and for her followers
    assert stage.sees("kim") == ["mention:nova#1"]
    build_retraction_settlement(stage.system()).settle([word])
    assert stage.sees("kim") == []


@pytest.mark.parametrize(
    "order", [(RetractionCause.PROTECT, RetractionCause.ERASE), (RetractionCause.ERASE, RetractionCause.PROTECT)]
)
def test_who_was_erased_and_writes_again_is_protected_all_the_same(
    order: tuple[RetractionCause, RetractionCause],
) -> None:
    """In whatever order the two words come: each is about what was written until its own moment."""
    stage = Stage()
    erased = replace(deleted(stage, "", "eve"), cause=RetractionCause.ERASE)
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve")
    said = {
        RetractionCause.ERASE: erased,
        RetractionCause.PROTECT: replace(erased, cause=RetractionCause.PROTECT, at=stage.ground.clock.now()),
    }
    for cause in order:
        build_retraction_settlement(stage.system()).settle([said[cause]])
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])
    stage.mention("nova", author="eve", of="another")
    assert stage.sees("lee") == []


def test_a_head_that_cannot_be_read_keeps_no_other_account_s_followers_from_it() -> None:
    stage = Stage()
    stage.mention("lyra", "nova", "orion", author="eve")
    append_to_log_only(stage, ERASED_TYPE, user="eve")
    unread = Unreadable(stage.ground.heads, LYRA)
    stage.pump(topics.RETRACTIONS, heads=unread).step()
    assert stage.sees("kim") == stage.sees("nova") == []
    assert stage.sees("lee") == ["mention:lyra#1"]
    [letter] = stage.ground.dead_letters.list(9)
    assert letter.stage == topics.GROUPS[topics.RETRACTIONS]
    stage.say(ERASED_TYPE, stage.system(heads=unread), user="eve")  # which is answered all the same


def test_however_much_somebody_has_written_some_of_it_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, at_once = Stage(), 4
    monkeypatch.setattr(retraction_settlement, "AT_ONCE", at_once)
    for n in range(at_once):
        stage.mention("nova", author="eve", of=f"t{n}", protected=True)
    append_to_log_only(stage, ERASED_TYPE, user="eve")
    told = list[int]()
    stage.pump(topics.RETRACTIONS, bus=Counting(told)).step()
    assert all(one.retracted for one in stage.ground.bursts.by_key.values())
    assert max(told) <= at_once + 1  # and that something may have been missed
    assert sum(told) >= len(stage.ground.bursts.by_key)
