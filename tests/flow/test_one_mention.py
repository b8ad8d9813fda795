"""One mention from the gateway to tab and phone, and what happens when parts of it don't work."""

import pytest

from notifier import topics
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.delivery.ledger import ATTEMPTS, Fact
from notifier.domain.delivery.slice import Again, Dead, Pool
from notifier.domain.errors import NotFound, StoreUnavailable
from notifier.domain.ids import UserId
from notifier.domain.users.visibility import Mark
from notifier.flow.intake.gateway import IntakeStatus
from notifier.ports.event_log import Record
from notifier.wiring.delivery import build_slice_worker
from tests.support.failing_ports import Broken, Refusing
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven


def facts(stage: Stage) -> set[Fact]:
    accounts = stage.ground.archive.accounts()
    return {one.ended.fact for account in accounts for one in account.standings.values() if one.ended}


def test_a_mention_reaches_tab_row_and_phone() -> None:
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("kim") == ["mention:nova#1"]
    assert stage.reached() == set()
    stage.deliver()
    members = {name: person.member for name, person in stage.scene.people.items()}
    assert stage.reached() == {members[name] for name in ("kim", "lee", "max", "pat", "eve")} | {members["roy"]}
    alerted = {device.member for sent, device in stage.ground.phones.arrived if sent.burst.subject == NOVA}
    assert alerted == {members[name] for name in ("kim", "lee", "roy")}


def test_the_mentioned_account_has_its_own_item() -> None:
    stage = Stage()
    stage.mention("nova")
    assert stage.sees("nova") == ["self:nova#1"]


def test_an_event_sent_twice_is_one_mention() -> None:
    stage = Stage()
    stage.tweet("nova", id="e1")
    stage.ground.recent.wipe()
    stage.tweet("nova", id="e1")
    stage.sequence()
    assert [burst.count for burst in stage.ground.bursts.by_key.values()] == [1, 1]


@pytest.mark.parametrize("garbled", ["", "x", "�" * 32, "0" * 31, "0" * 33])
def test_a_garbled_digest_is_no_conflict_and_counts_nothing_twice(garbled: str) -> None:
    stage = Stage()
    stage.tweet("nova", id="e1")
    recent = stage.ground.recent
    recent.known = {event: (garbled, until) for event, (_, until) in recent.known.items()}
    assert stage.tweet("nova", id="e1").answer is IntakeStatus.ACCEPTED
    stage.sequence()
    assert [burst.count for burst in stage.ground.bursts.by_key.values()] == [1, 1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ghost", MentionRefusal.UNKNOWN_ACCOUNT),
        ("gone", MentionRefusal.DELETED_ACCOUNT),
        ("ada", MentionRefusal.SELF_MENTION),
    ],
)
def test_a_refused_account_has_no_burst_and_a_reason(name: str, why: MentionRefusal) -> None:
    stage = Stage()
    stage.tweet(name, "nova", id="e1")
    stage.sequence()
    refused = [o for o in stage.ground.bursts.outcomes("tweets", "e1") if o.refusal]
    assert [(o.account, o.refusal) for o in refused] == [(name, why)]
    assert {key.subject.owner for key in stage.ground.bursts.by_key} == {"nova"}


def test_an_outage_of_the_store_dead_letters_nothing_and_loses_nothing() -> None:
    stage = Stage()
    stage.tweet("nova")
    for stream, port in ((topics.MENTIONS, "directory"), (topics.MENTIONS_CELEBRITY, "bursts")):
        pump = stage.pump(stream, **{port: Refusing(getattr(stage.ground, port), StoreUnavailable)})
        for _ in range(10):
            with pytest.raises(StoreUnavailable):
                pump.step()
        pump.consumer.close()
        one = stage.pump(stream)
        assert one.step() == 1
        one.consumer.close()
    stage.sequence()
    stage.dispatch()
    down = build_slice_worker(stage.system(inbox=Refusing(stage.ground.inbox, StoreUnavailable)))
    assert {type(outcome) for outcome in stage.work(Pool.P1, by=down)} == {Again}
    stage.deliver()
    assert stage.ground.dead_letters.list(9) == []
    assert facts(stage) == {Fact.DONE}


def test_a_poison_record_goes_to_the_dead_letters_and_the_lane_goes_on() -> None:
    stage = Stage()
    stage.ground.log.append([Record(stream=topics.MENTIONS_CELEBRITY, key="mention:nova", value=b"not a mention")])
    stage.mention("nova")
    [letter] = stage.ground.dead_letters.list(9)
    assert letter.body == b"not a mention"
    assert stage.sees("kim") == ["mention:nova#1"]


def test_a_slice_that_fails_by_itself_dies_of_the_fifth_attempt_with_a_letter() -> None:
    stage = Stage()
    stage.mention("nova")
    broken = build_slice_worker(stage.system(inbox=Broken(stage.ground.inbox)))
    stage.dispatch()
    [first, *_] = stage.ground.queue.waiting[Pool.P1]
    stage.ground.queue.wipe()
    outcomes = []
    for _ in range(ATTEMPTS):
        outcomes.append(broken(first))
        stage.pass_time(seconds=1)
    assert [type(outcome) for outcome in outcomes] == [Again] * (ATTEMPTS - 1) + [Dead]
    [letter] = stage.ground.dead_letters.list(9)
    assert letter.id == str(first)
    stage.deliver(rounds=90)
    assert facts(stage) == {Fact.DONE, Fact.DEAD}
    assert stage.sees("lee") == stage.sees("kim") == ["mention:nova#1"]


def test_rows_come_before_phones() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.dispatch()
    assert not stage.ground.queue.waiting[Pool.FCM]
    stage.work()
    stage.pass_time(seconds=1)
    stage.dispatch()
    assert stage.ground.queue.waiting[Pool.FCM]
    assert not [p for p in stage.ground.queue.waiting[Pool.FCM] if p.tier is Tier.P2]


def test_nobody_marks_what_they_do_not_see() -> None:
    stage = Stage()
    stage.mention("nova")
    [key] = stage.bursts()
    assert stage.sees("ada") == []
    with pytest.raises(NotFound):
        driven(stage.tab().mark(UserId("ada"), [key], Mark.READ))
