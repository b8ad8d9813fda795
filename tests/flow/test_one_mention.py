"""One mention from the gateway to inbox and alert, and failures on the way."""

import pytest

from notifier import topics
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.delivery.ledger import MAX_ATTEMPTS, Fact
from notifier.domain.delivery.slice_and_pool import Dead, Pool, Retry
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.users.visibility import Mark
from notifier.flow.intake.gateway import IntakeStatus
from notifier.ports.event_log_and_dead_letters import Record
from notifier.wiring.delivery import build_slice_worker
from tests.support.failing_and_corrupt_ports import BrokenWrites, FailingPort
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import run_sync


def facts(stage: Stage) -> set[Fact]:
    return {
        status.final_entry.fact
        for progress in stage.state.store_scan.burst_progress()
        for status in progress.slice_states.values()
        if status.final_entry
    }


def test_mention_reaches_inbox_row_and_device() -> None:
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("kim") == ["mention:nova#1"]
    assert stage.reached() == set()
    stage.deliver()
    members = {name: person.member for name, person in stage.population.people.items()}
    assert stage.reached() == {members[name] for name in ("kim", "lee", "max", "pat", "eve", "roy")}
    alerted = {device.member for sent, device in stage.state.phones.arrived if sent.burst.subject == NOVA}
    assert alerted == {members[name] for name in ("kim", "lee", "roy")}


def test_mentioned_account_gets_self_item() -> None:
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("nova") == ["self:nova#1"]


def test_repeated_event_is_one_mention() -> None:
    stage = Stage()
    stage.tweet("nova", id="e1")
    stage.state.recent_events.wipe()
    stage.tweet("nova", id="e1")
    stage.sequence()
    assert [burst.count for burst in stage.state.bursts.by_key.values()] == [1, 1]


@pytest.mark.parametrize("corrupt", ["", "x", "�" * 32, "0" * 31, "0" * 33])
def test_corrupt_event_digest_is_no_conflict_and_no_second_mention(corrupt: str) -> None:
    stage = Stage()
    stage.tweet("nova", id="e1")
    recent = stage.state.recent_events
    recent.known = {event: (corrupt, until) for event, (_, until) in recent.known.items()}
    assert stage.tweet("nova", id="e1").status is IntakeStatus.ACCEPTED
    stage.sequence()
    assert [burst.count for burst in stage.state.bursts.by_key.values()] == [1, 1]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("ghost", MentionRefusal.UNKNOWN_ACCOUNT),
        ("gone", MentionRefusal.DELETED_ACCOUNT),
        ("ada", MentionRefusal.SELF_MENTION),
    ],
)
def test_refused_account_has_a_reason_and_no_burst(name: str, refusal: MentionRefusal) -> None:
    stage = Stage()
    stage.tweet(name, "nova", id="e1")
    stage.sequence()
    refused = [outcome for outcome in stage.state.bursts.outcomes("tweets", "e1") if outcome.refusal]
    assert [(outcome.account, outcome.refusal) for outcome in refused] == [(name, refusal)]
    assert {key.subject.owner for key in stage.state.bursts.by_key} == {"nova"}


def test_store_outage_loses_nothing_and_writes_no_dead_letters() -> None:
    stage = Stage()
    stage.tweet("nova")
    for stream, port in ((topics.MENTIONS, "directory"), (topics.MENTIONS_CELEBRITY, "bursts")):
        pump = stage.pump(stream, **{port: FailingPort(getattr(stage.state, port), StoreUnavailable)})
        for _ in range(10):
            with pytest.raises(StoreUnavailable):
                pump.step()
        pump.consumer.close()
        recovered = stage.pump(stream)
        assert recovered.step() == 1
        recovered.consumer.close()
    stage.sequence()
    stage.dispatch()
    down = build_slice_worker(stage.system(inbox=FailingPort(stage.state.inbox, StoreUnavailable)))
    assert {type(outcome) for outcome in stage.work(Pool.P1, by=down)} == {Retry}
    stage.deliver()
    assert stage.state.dead_letters.list(9) == []
    assert facts(stage) == {Fact.DONE}


def test_poison_record_becomes_dead_letter_and_lane_continues() -> None:
    stage = Stage()
    stage.state.log.append([Record(stream=topics.MENTIONS_CELEBRITY, key="mention:nova", value=b"not a mention")])
    stage.mention("nova")
    [letter] = stage.state.dead_letters.list(9)
    assert letter.body == b"not a mention"
    assert stage.sees("kim") == ["mention:nova#1"]


def test_broken_slice_becomes_dead_letter_after_five_attempts() -> None:
    stage = Stage()
    stage.mention("nova")
    broken = build_slice_worker(stage.system(inbox=BrokenWrites(stage.state.inbox)))
    stage.dispatch()
    [first, *_] = stage.state.queue.waiting[Pool.P1]
    stage.state.queue.wipe()
    outcomes = []
    for _ in range(MAX_ATTEMPTS):
        outcomes.append(broken(first))
        stage.pass_time(seconds=1)
    assert [type(outcome) for outcome in outcomes] == [Retry] * (MAX_ATTEMPTS - 1) + [Dead]
    [letter] = stage.state.dead_letters.list(9)
    assert letter.id == str(first)
    stage.deliver(rounds=90)
    assert facts(stage) == {Fact.DONE, Fact.DEAD}
    assert stage.sees("lee") == stage.sees("kim") == ["mention:nova#1"]


def test_rows_are_written_before_alerts_are_queued() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    assert not stage.state.queue.waiting[Pool.FCM]
    stage.work()
    stage.pass_time(seconds=1)
    stage.dispatch()
    assert stage.state.queue.waiting[Pool.FCM]
    assert not [slice_ for slice_ in stage.state.queue.waiting[Pool.FCM] if slice_.tier is Tier.P2]


def test_marking_invisible_burst_is_rejected() -> None:
    stage = Stage()
    stage.mention("nova")
    [key] = stage.bursts()
    assert stage.sees("ada") == []
    with pytest.raises(NotFound):
        run_sync(stage.uncached_inbox().mark(UserId("ada"), [key], Mark.READ))
