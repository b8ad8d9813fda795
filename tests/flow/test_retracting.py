"""What is taken back is gone for whoever reads next, whenever it was said and whoever dies meanwhile."""

from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.validation import ERASED_TYPE, PROTECTED_TYPE
from notifier.wiring.delivery import build_reconciler, build_slice_worker
from notifier.wiring.sequencing import build_coordinator
from tests.flow.retractions import burst, delete, delete_in_log_only, edit, names
from tests.flow.stalling import Stalling
from tests.support.failing_ports import Unswapped, Unwritten
from tests.support.in_memory_system import Stage

SELF_NOVA = Subject(Kind.SELF, UserId("nova"))


def test_retraction_hidden_at_once() -> None:
    """By whoever reads once it is accepted, before anybody has read the log."""
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("kim") == ["mention:nova#1"]
    assert stage.sees("nova") == ["self:nova#1"]
    delete(stage)
    assert stage.sees("kim") == stage.sees("nova") == []
    assert burst(stage).text == ""


def test_what_is_only_in_the_log_is_hidden_once_the_retractor_has_read_it() -> None:
    """As of a stream, or of an outage that ended before the retractor came to it."""
    stage = Stage()
    stage.mention("nova")
    delete_in_log_only(stage)
    assert stage.sees("kim") == ["mention:nova#1"]
    stage.sequence()
    assert stage.sees("kim") == []


def test_delete_before_mention() -> None:
    stage = Stage()
    delete(stage)
    stage.mention("nova")
    assert stage.bursts() == stage.bursts(SELF_NOVA) == []
    assert {outcome.refusal for outcome in stage.ground.bursts.outcomes(None, "e2")} == {MentionRefusal.RETRACTED}


@pytest.mark.parametrize("method", ["known", "write"])
def test_who_is_deleted_while_the_coordinator_writes_is_hidden_when_it_is_done(method: str) -> None:
    """It has asked what stands, and the deletion has followed the trails before the mention was on them."""
    stage = Stage()
    stage.tweet("nova")
    stalling = Stalling(stage.ground.bursts, method, lambda: delete(stage))
    for stream in topics.MENTIONS_PASS:
        stage.pump(stream, bursts=stalling).step()
    assert stalling.stopped
    assert stage.sees("kim") == stage.sees("nova") == []


def test_of_a_shared_burst_the_mention_alone_is_gone() -> None:
    stage = Stage()
    for author in ("ada", "eve", "bob"):
        stage.mention("nova", author=author, of=f"of {author}")
    delete(stage, "of eve", "eve")
    assert (burst(stage).count, burst(stage).mentioners) == (2, ("ada", "bob"))
    assert (burst(stage).tweet, burst(stage).silent) == ("of ada", False)
    delete(stage, "of ada")
    assert (burst(stage).count, burst(stage).mentioners) == (1, ("bob",))
    assert (burst(stage).tweet, burst(stage).text, burst(stage).silent) == ("of bob", "of bob", True)
    assert stage.sees("max") == []  # who has blocked bob
    assert names(stage, "kim") == [("bob",)]
    delete(stage, "of bob", "bob")
    assert stage.sees("kim") == []


def test_who_has_mentioned_twice_is_named_until_both_are_gone() -> None:
    stage = Stage()
    for tweet in ("t1", "t2", "t3"):
        stage.mention("nova", author="eve" if tweet == "t2" else "ada", of=tweet)
    delete(stage, "t1")
    assert (burst(stage).mentioners, burst(stage).tweet, burst(stage).count) == (("ada", "eve"), "t3", 2)
    delete(stage, "t3")
    assert (burst(stage).mentioners, burst(stage).tweet, burst(stage).count) == (("eve",), "t2", 1)


def test_the_same_said_twice_or_read_again_takes_one_away_once() -> None:
    stage = Stage()
    for author in ("ada", "eve"):
        stage.mention("nova", author=author, of=author)
    for _ in range(2):
        delete(stage, "ada")
        stage.sequence()
    assert (burst(stage).count, burst(stage).mentioners) == (1, ("eve",))


def test_nobody_takes_back_what_somebody_else_has_written_nor_keeps_its_author_from_it() -> None:
    stage = Stage()
    stage.mention("nova")
    delete(stage, "t1", "bob")
    stage.sequence()
    assert stage.sees("kim") == ["mention:nova#1"]
    delete(stage, "t1")
    assert stage.sees("kim") == []


def test_an_edited_tweet_says_what_it_says_now_to_those_it_still_names() -> None:
    stage = Stage()
    stage.mention("nova", "orion")
    edit(stage, "orion")
    assert stage.sees("nova") == []
    assert stage.sees("kim") == ["mention:orion#1"]
    assert [item.burst.text for item in stage.items("kim")] == ["edited"]
    edit(stage, "nova", "orion", text="back", sequence=3)
    edit(stage, "nova", "orion", text="late", sequence=2)
    assert [item.burst.text for item in stage.items("kim")] == ["back"]


def test_an_edit_that_comes_before_the_mention_counts_for_it() -> None:
    stage = Stage()
    edit(stage, "orion")
    stage.mention("nova", "orion")
    assert stage.bursts() == []
    assert [item.burst.text for item in stage.items("kim")] == ["edited"]


def test_who_is_protected_leaves_what_all_may_see() -> None:
    stage = Stage()
    for author in ("ada", "eve"):
        stage.mention("nova", author=author, of=author)
    stage.say(PROTECTED_TYPE, user="eve")
    assert (burst(stage).count, burst(stage).mentioners, burst(stage).restricted_to) == (1, ("ada",), None)
    delete(stage, "eve", "eve")  # which had left already
    assert burst(stage).count == 1


def test_restricted_never_leaks() -> None:
    """What the protected alone have said is left to their followers, and a deletion later takes it from them."""
    stage = Stage()
    stage.mention("nova", author="eve")
    stage.say(PROTECTED_TYPE, user="eve")
    assert {name: stage.sees(name) for name in ("kim", "max", "lee", "roy")} == {
        "kim": ["mention:nova#1"],
        "max": ["mention:nova#1"],
        "lee": [],
        "roy": [],
    }
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve", of="later")  # public again, by what the tweet service says
    assert stage.sees("lee") == ["mention:nova#2"]
    delete(stage, "t1", "eve")
    assert stage.sees("kim") == ["mention:nova#2"]


def test_a_mention_from_before_its_author_was_protected_is_restricted_when_it_comes() -> None:
    stage = Stage()
    stage.tweet("nova", author="eve")
    stage.say(PROTECTED_TYPE, user="eve")
    stage.sequence()
    assert burst(stage).restricted_to == "eve"
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])


def test_of_the_erased_nothing_is_left_of_what_they_have_said() -> None:
    stage = Stage()
    stage.mention("nova", author="eve", of="t1")
    stage.pass_time(hours=30)
    stage.mention("nova", "orion", author="eve", of="t2")
    stage.say(ERASED_TYPE, user="eve")
    assert stage.sees("kim") == stage.sees("nova") == []
    assert all(one.text == "" for one in stage.ground.bursts.by_key.values())
    assert all(one.text == "" for one in stage.ground.bursts.mentions.values())


def test_what_is_left_empty_is_joined_by_nobody() -> None:
    stage = Stage()
    stage.mention("nova")
    delete(stage)
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve", of="t2")
    assert stage.sees("kim") == ["mention:nova#2"]
    assert burst(stage).count == 1
    assert burst(stage).first_of_day


def test_the_next_of_a_day_is_not_its_first_where_one_stands() -> None:
    stage = Stage(collapse=timedelta(0))
    stage.mention("orion", of="t1")
    stage.mention("orion", of="t2")
    orion = Subject(Kind.MENTION, UserId("orion"))
    delete(stage, "t2")
    stage.mention("orion", of="t3")
    assert [stage.ground.bursts.by_key[key].first_of_day for key in stage.bursts(orion)] == [True, False, False]


def test_where_the_first_of_a_day_is_taken_back_while_a_later_one_is_open_the_next_is_the_first() -> None:
    """Lee wants a day's first alone."""
    stage = Stage()
    stage.mention("nova", of="t1")
    stage.pass_time(minutes=2)
    stage.mention("nova", of="t2")
    assert stage.sees("lee") == ["mention:nova#1"]
    delete(stage, "t1")
    stage.mention("nova", author="eve", of="t3")
    assert (stage.sees("lee"), stage.sees("max")) == ([], ["mention:nova#2"])
    stage.pass_time(minutes=2)
    stage.mention("nova", of="t4")
    assert stage.sees("lee") == ["mention:nova#3"]


def test_who_takes_every_tweet_back_buys_no_more_fan_outs_than_the_budget_has() -> None:
    stage = Stage()
    for n in range(9):
        stage.mention("nova", of=f"t{n}")
        delete(stage, f"t{n}")
    bursts = [stage.ground.bursts.by_key[key] for key in stage.bursts()]
    assert [one.pull_only for one in bursts] == [False] * 6 + [True] * 3
    stage.mention("nova", author="eve", of="last")
    assert stage.sees("kim") == ["mention:nova#10"]


def test_no_phone_rings_for_what_was_taken_back_and_its_books_balance() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    delete(stage)
    stage.deliver()
    assert stage.ground.phones.arrived == []
    assert all(
        books.balanced and not books.in_flight for books in build_reconciler(stage.system()).sums(stage.bursts())
    )


def test_no_phone_rings_on_in_a_slice_that_had_begun() -> None:
    stage = Stage()
    stage.mention("nova")
    reading = Stalling(stage.ground.bursts, "read", lambda: delete(stage))
    stage.dispatch()
    work = build_slice_worker(stage.system(bursts=reading))
    for _ in range(9):
        stage.work(by=work)
        stage.dispatch()
        stage.pass_time(seconds=1)
    assert reading.stopped
    assert stage.ground.phones.arrived == []


@pytest.mark.parametrize("port", ["heads", "bursts"])
def test_who_dies_in_between_leaves_it_to_the_next(port: str) -> None:
    """Before the head is swapped, and behind it: the head has decided, and nothing of it is written."""
    stage = Stage()
    stage.mention("nova")
    stage.mention("nova", author="eve", of="t2")
    delete_in_log_only(stage)
    broken = {"heads": Unswapped(stage.ground.heads), "bursts": Unwritten(stage.ground.bursts)}
    with pytest.raises(StoreUnavailable):
        stage.pump(topics.RETRACTIONS, **{port: broken[port]}).step()
    stage.pass_time(minutes=2)
    stage.sequence()
    assert (burst(stage).count, burst(stage).mentioners) == (1, ("eve",))
    assert stage.ground.heads.unpublished(9) == []


def test_a_mention_that_comes_with_its_own_retraction_in_flight_is_counted_right() -> None:
    """A coordinator that keeps the head as it was has its swap refused, and decides anew."""
    stage = Stage()
    coordinator = build_coordinator(stage.system())
    stage.mention("nova")
    stage.tweet("nova", author="eve", of="t2")
    router = stage.pump(topics.MENTIONS)
    router.step()
    delete(stage)
    consumer = stage.ground.log.subscribe(topics.MENTIONS_CELEBRITY, "test", "test")
    coordinator(consumer.poll(100, timedelta(0)))
    assert [stage.ground.bursts.by_key[key].count for key in stage.bursts()] == [0, 1]
