"""Retracted content is hidden from every later read, regardless of event order and crashes."""

from datetime import timedelta

import pytest

from notifier import topics
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.validation import ERASED_TYPE, PROTECTED_TYPE
from notifier.wiring.delivery import build_reconciler, build_slice_worker
from notifier.wiring.sequencing import build_coordinator
from tests.flow.port_with_callback import RunsAfterCall
from tests.flow.retraction_steps import delete, delete_in_log_only, edit, mentioners, newest_burst
from tests.support.failing_and_corrupt_ports import FailingBursts, FailingHeads
from tests.support.in_memory_system import Stage

SELF_NOVA = Subject(Kind.SELF, UserId("nova"))


def test_retracted_burst_is_hidden_at_once() -> None:
    """Every read after the acceptance omits the burst, before any consumer reads the log."""
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("kim") == ["mention:nova#1"]
    assert stage.sees("nova") == ["self:nova#1"]
    delete(stage)
    assert stage.sees("kim") == stage.sees("nova") == []
    assert newest_burst(stage).text == ""


def test_retraction_only_in_the_log_takes_effect_when_it_is_read() -> None:
    """The gateway did not settle it, for example because of an outage."""
    stage = Stage()
    stage.mention("nova")
    delete_in_log_only(stage)
    assert stage.sees("kim") == ["mention:nova#1"]
    stage.sequence()
    assert stage.sees("kim") == []


def test_deletion_before_the_mention_prevents_a_burst() -> None:
    stage = Stage()
    delete(stage)
    stage.mention("nova")
    assert stage.bursts() == stage.bursts(SELF_NOVA) == []
    assert {outcome.refusal for outcome in stage.state.bursts.outcomes(None, "e2")} == {MentionRefusal.RETRACTED}


@pytest.mark.parametrize("method", ["known_events", "write"])
def test_deletion_during_sequencing_hides_the_mention(method: str) -> None:
    """The coordinator has read the retractions, and the deletion has read the mentions before this one was written."""
    stage = Stage()
    stage.tweet("nova")
    stalling = RunsAfterCall(stage.state.bursts, method, lambda: delete(stage))
    for stream in topics.MENTION_STREAMS:
        stage.pump(stream, bursts=stalling).step()
    assert stalling.called
    assert stage.sees("kim") == stage.sees("nova") == []


def test_deletion_removes_only_its_mention_from_a_shared_burst() -> None:
    stage = Stage()
    for author in ("ada", "eve", "bob"):
        stage.mention("nova", author=author, of=f"of {author}")
    delete(stage, "of eve", "eve")
    assert (newest_burst(stage).count, newest_burst(stage).mentioners) == (2, ("ada", "bob"))
    assert (newest_burst(stage).tweet, newest_burst(stage).silent) == ("of ada", False)
    delete(stage, "of ada")
    assert (newest_burst(stage).count, newest_burst(stage).mentioners) == (1, ("bob",))
    assert (newest_burst(stage).tweet, newest_burst(stage).text, newest_burst(stage).silent) == (
        "of bob",
        "of bob",
        True,
    )
    assert stage.sees("max") == []  # max has blocked bob
    assert mentioners(stage, "kim") == [("bob",)]
    delete(stage, "of bob", "bob")
    assert stage.sees("kim") == []


def test_author_is_named_until_all_their_mentions_are_deleted() -> None:
    stage = Stage()
    for tweet in ("t1", "t2", "t3"):
        stage.mention("nova", author="eve" if tweet == "t2" else "ada", of=tweet)
    delete(stage, "t1")
    assert (newest_burst(stage).mentioners, newest_burst(stage).tweet, newest_burst(stage).count) == (
        ("ada", "eve"),
        "t3",
        2,
    )
    delete(stage, "t3")
    assert (newest_burst(stage).mentioners, newest_burst(stage).tweet, newest_burst(stage).count) == (("eve",), "t2", 1)


def test_repeated_deletion_has_one_effect() -> None:
    stage = Stage()
    for author in ("ada", "eve"):
        stage.mention("nova", author=author, of=author)
    for _ in range(2):
        delete(stage, "ada")
        stage.sequence()
    assert (newest_burst(stage).count, newest_burst(stage).mentioners) == (1, ("eve",))


def test_deletion_by_another_author_has_no_effect() -> None:
    stage = Stage()
    stage.mention("nova")
    delete(stage, "t1", "bob")
    stage.sequence()
    assert stage.sees("kim") == ["mention:nova#1"]
    delete(stage, "t1")
    assert stage.sees("kim") == []


def test_edit_changes_text_and_mentioned_accounts() -> None:
    stage = Stage()
    stage.mention("nova", "orion")
    edit(stage, "orion")
    assert stage.sees("nova") == []
    assert stage.sees("kim") == ["mention:orion#1"]
    assert [item.burst.text for item in stage.items("kim")] == ["edited"]
    edit(stage, "nova", "orion", text="back", sequence=3)
    edit(stage, "nova", "orion", text="late", sequence=2)
    assert [item.burst.text for item in stage.items("kim")] == ["back"]


def test_edit_before_the_mention_applies_to_it() -> None:
    stage = Stage()
    edit(stage, "orion")
    stage.mention("nova", "orion")
    assert stage.bursts() == []
    assert [item.burst.text for item in stage.items("kim")] == ["edited"]


def test_protection_removes_the_authors_mentions_from_public_bursts() -> None:
    stage = Stage()
    for author in ("ada", "eve"):
        stage.mention("nova", author=author, of=author)
    stage.send_event(PROTECTED_TYPE, user="eve")
    assert (newest_burst(stage).count, newest_burst(stage).mentioners, newest_burst(stage).restricted_to) == (
        1,
        ("ada",),
        None,
    )
    delete(stage, "eve", "eve")  # eve's mention had been removed before
    assert newest_burst(stage).count == 1


def test_restricted_burst_is_never_shown_to_others() -> None:
    """A burst by a protected author alone is restricted to followers, and a later deletion hides it from them."""
    stage = Stage()
    stage.mention("nova", author="eve")
    stage.send_event(PROTECTED_TYPE, user="eve")
    assert {name: stage.sees(name) for name in ("kim", "max", "lee", "roy")} == {
        "kim": ["mention:nova#1"],
        "max": ["mention:nova#1"],
        "lee": [],
        "roy": [],
    }
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve", of="later")  # the tweet service says that it is public
    assert stage.sees("lee") == ["mention:nova#2"]
    delete(stage, "t1", "eve")
    assert stage.sees("kim") == ["mention:nova#2"]


def test_mention_from_before_the_protection_is_restricted() -> None:
    stage = Stage()
    stage.tweet("nova", author="eve")
    stage.send_event(PROTECTED_TYPE, user="eve")
    stage.sequence()
    assert newest_burst(stage).restricted_to == "eve"
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])


def test_erasure_clears_all_texts_of_the_author() -> None:
    stage = Stage()
    stage.mention("nova", author="eve", of="t1")
    stage.pass_time(hours=30)
    stage.mention("nova", "orion", author="eve", of="t2")
    stage.send_event(ERASED_TYPE, user="eve")
    assert stage.sees("kim") == stage.sees("nova") == []
    assert all(burst.text == "" for burst in stage.state.bursts.by_key.values())
    assert all(mention.text == "" for mention in stage.state.bursts.mentions.values())


def test_mention_after_a_full_deletion_opens_a_new_burst() -> None:
    stage = Stage()
    stage.mention("nova")
    delete(stage)
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve", of="t2")
    assert stage.sees("kim") == ["mention:nova#2"]
    assert newest_burst(stage).count == 1
    assert newest_burst(stage).first_of_day


def test_later_burst_is_not_first_of_day_while_the_first_remains() -> None:
    stage = Stage(collapse=timedelta(0))
    stage.mention("orion", of="t1")
    stage.mention("orion", of="t2")
    orion = Subject(Kind.MENTION, UserId("orion"))
    delete(stage, "t2")
    stage.mention("orion", of="t3")
    assert [stage.state.bursts.by_key[key].first_of_day for key in stage.bursts(orion)] == [True, False, False]


def test_burst_after_a_deleted_first_of_day_is_the_first() -> None:
    """Lee has volume `first`."""
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


def test_deletions_do_not_refund_the_fanout_budget() -> None:
    stage = Stage()
    for n in range(9):
        stage.mention("nova", of=f"t{n}")
        delete(stage, f"t{n}")
    bursts = [stage.state.bursts.by_key[key] for key in stage.bursts()]
    assert [burst.pull_only for burst in bursts] == [False] * 6 + [True] * 3
    stage.mention("nova", author="eve", of="last")
    assert stage.sees("kim") == ["mention:nova#10"]


def test_retracted_burst_causes_no_alert_and_balances() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    delete(stage)
    stage.deliver()
    assert stage.state.phones.arrived == []
    assert all(
        totals.is_balanced and not totals.in_flight
        for totals in build_reconciler(stage.system()).totals(stage.bursts())
    )


def test_retraction_during_a_push_slice_stops_its_alerts() -> None:
    stage = Stage()
    stage.mention("nova")
    reading = RunsAfterCall(stage.state.bursts, "read", lambda: delete(stage))
    stage.dispatch()
    work = build_slice_worker(stage.system(bursts=reading))
    for _ in range(9):
        stage.work(by=work)
        stage.dispatch()
        stage.pass_time(seconds=1)
    assert reading.called
    assert stage.state.phones.arrived == []


@pytest.mark.parametrize("port", ["heads", "bursts"])
def test_retraction_completes_after_a_crash(port: str) -> None:
    """The crash is before the swap of the head, or after it and before any write."""
    stage = Stage()
    stage.mention("nova")
    stage.mention("nova", author="eve", of="t2")
    delete_in_log_only(stage)
    broken = {"heads": FailingHeads(stage.state.heads), "bursts": FailingBursts(stage.state.bursts)}
    with pytest.raises(StoreUnavailable):
        stage.pump(topics.RETRACTIONS, **{port: broken[port]}).step()
    stage.pass_time(minutes=2)
    stage.sequence()
    assert (newest_burst(stage).count, newest_burst(stage).mentioners) == (1, ("eve",))
    assert stage.state.heads.unpublished(9) == []


def test_mention_concurrent_with_a_deletion_is_counted_correctly() -> None:
    """A coordinator with an outdated head fails its swap and decides again."""
    stage = Stage()
    coordinator = build_coordinator(stage.system())
    stage.mention("nova")
    stage.tweet("nova", author="eve", of="t2")
    router = stage.pump(topics.MENTIONS)
    router.step()
    delete(stage)
    consumer = stage.state.log.subscribe(topics.MENTIONS_CELEBRITY, "test", "test")
    coordinator(consumer.poll(100, timedelta(0)))
    assert [stage.state.bursts.by_key[key].count for key in stage.bursts()] == [0, 1]
