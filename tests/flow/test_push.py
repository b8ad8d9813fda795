"""Alerts: who is spared them, what a throttle may not cost, and what happens when nobody can say."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from notifier.domain.audience.bitmap import Bits, from_offsets
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.delivery.slice import TERMS, Again, Pool, Slice, Step
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.timing import STALE
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.ports.directory import DirectoryEntry
from notifier.ports.ledger import Ledger
from notifier.ports.push import Spare
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.push import build_push_pipeline
from tests.support.in_memory_system import NOVA, Stage
from tests.support.simulator.inbox_visits import driven

LEE = UserId("lee")
"""Follows nova with a device, and is in P1; kim is in P0 and always alerted."""


ASLEEP = OverallWish(quiet=Hours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""Where it is nine in the evening when it is noon by UTC."""


def rows_only(stage: Stage) -> None:
    """The rows stand, and no phone has rung."""
    stage.dispatch()
    stage.work(Pool.P0, Pool.P1, Pool.P2)


def alerted(stage: Stage) -> set[str]:
    names = {person.member: name for name, person in stage.scene.people.items()}
    told = [device.member for sent, device in stage.ground.phones.arrived if sent.burst.subject == NOVA]
    assert len(told) == len(set(told))
    return {names[member] for member in told}


def sees(stage: Stage) -> None:
    token = stage.page(LEE).seen
    assert token is not None
    driven(stage.tab().see(LEE, token))


def marks(mark: Mark) -> Callable[[Stage], None]:
    return lambda stage: driven(stage.tab().mark(LEE, stage.bursts(), mark))


DEEDS: dict[str, Callable[[Stage], None]] = {
    "saw it": sees,
    "read it": marks(Mark.READ),
    "hid it": marks(Mark.HIDDEN),
    "blocked the opener": lambda stage: stage.ground.people.block(LEE, UserId("ada")),
    "was blocked by the opener": lambda stage: stage.ground.people.block(UserId("ada"), LEE),
    "blocked the account": lambda stage: stage.ground.people.block(LEE, NOVA.owner),
    "was blocked by the account": lambda stage: stage.ground.people.block(NOVA.owner, LEE),
    "was blocked for a moment": lambda stage: stage.ground.people.unblock(NOVA.owner, LEE, stage.ground.clock.now()),
    "muted the subject": lambda stage: stage.ground.people.mute(LEE, NOVA),
    "left the subject": lambda stage: stage.ground.people.unfollow(LEE, NOVA),
    "came back to it": lambda stage: stage.ground.people.follow(LEE, NOVA, stage.ground.clock.now()),
    "deleted the account": lambda stage: stage.ground.directory.enrol(
        [DirectoryEntry(user=LEE, member=Member(stage.scene.people[LEE].member), deleted=True)]
    ),
    "wants less": lambda stage: stage.ground.people.volume(LEE, NOVA, Volume.OFF),
    "wants nothing of everything": lambda stage: stage.ground.people.arrange(LEE, OverallWish(volume=Volume.OFF)),
    "wants no alerts": lambda stage: stage.ground.people.arrange(LEE, OverallWish(push=False)),
    "went to bed": lambda stage: stage.ground.people.arrange(LEE, ASLEEP),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_nobody_is_alerted_who_dealt_with_it_before_the_phones_rang(deed: str) -> None:
    stage = Stage()
    stage.mention("nova")
    rows_only(stage)
    stage.pass_time(seconds=3)
    DEEDS[deed](stage)
    stage.deliver_others()  # who sleeps may still be told in the morning
    assert alerted(stage) == {"kim", "roy"}


def test_whoever_blocked_the_opener_before_it_opened_is_not_alerted_and_sees_it_when_others_join() -> None:
    stage = Stage()
    stage.mention("nova", author="bob")
    stage.mention("nova", author="ada")
    stage.deliver()
    assert alerted(stage) == {"kim", "lee"}
    assert stage.sees("roy") == ["mention:nova#1"]


@pytest.mark.parametrize(("tier", "names"), [(Tier.P0, {"kim", "roy"}), (Tier.P1, {"lee"})])
def test_a_throttle_that_is_longer_than_news_are_news_costs_no_alert(tier: Tier, names: set[str]) -> None:
    stage = Stage()
    pause = 2 * STALE
    stage.throttle(tier, seconds=pause.total_seconds())
    stage.mention("nova")
    stage.deliver_others()
    assert alerted(stage) == {"kim", "roy", "lee"} - names
    stage.ground.clock.advance(pause)
    stage.deliver(rounds=90)
    assert alerted(stage) == {"kim", "roy", "lee"}


def test_an_alert_is_worth_a_day() -> None:
    stage = Stage()
    stage.mention("nova")
    rows_only(stage)
    stage.ground.clock.advance(TERMS[Pool.FCM].worth - timedelta(seconds=5))
    stage.dispatch()
    stage.work(Pool.FCM)
    assert alerted(stage) == {"kim", "lee", "roy"}


def test_an_alert_of_yesterday_is_dropped_and_counted() -> None:
    stage = Stage()
    stage.mention("nova")
    rows_only(stage)
    stage.ground.clock.advance(TERMS[Pool.FCM].worth)
    stage.deliver()
    assert alerted(stage) == set()
    assert pushes(stage) == {Fact.PULLED}


def test_whose_rows_were_left_to_the_pull_path_are_told_all_the_same() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.ground.clock.advance(TERMS[Pool.P1].worth)
    stage.deliver()
    assert alerted(stage) == {"kim", "lee", "roy"}


def pushes(stage: Stage) -> set[Fact]:
    [account] = [a for a in stage.ground.archive.accounts() if a.plan.burst.subject == NOVA]
    return {s.ended.fact for s in account.standings.values() if s.ended and s.slice.step is Step.FCM}


def test_a_slice_whose_reading_takes_longer_than_its_claim_keeps_it() -> None:
    stage = Stage()
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts()
    burst, clock, claims = stage.ground.bursts.by_key[key], stage.ground.clock, stage.ground.claims
    piece = Slice(key, Step.FCM, Tier.P0, 0, 4)

    class Everywhere:
        def alerted(self, burst: BurstKey, shards: Collection[int], tier: Tier) -> Mapping[int, Bits]:
            return {shard: from_offsets([1]) for shard in shards}

    class Slow:
        def drafts(self, *given: Any) -> Iterator[Any]:
            clock.advance(piece.terms.claim / 2)
            return iter(())

    parts: Any = {"seals": Everywhere(), "selection": Slow()}
    claim = claims.claim(piece, "one", clock.now(), clock.now() + piece.terms.claim)
    assert claim is not None
    replace(build_push_pipeline(stage.system()), **parts)(burst, piece, SliceLease(claim, claims, clock))
    assert claims.claim(piece, "other", clock.now(), clock.now() + piece.terms.claim) is None


@dataclass(frozen=True)
class Rivals:
    """Somebody who has lost the slice notes right before its holder that it waits for the morning."""

    ledger: Ledger

    def __getattr__(self, method: str) -> Any:
        return getattr(self.ledger, method)

    def record(self, entries: Sequence[LedgerEntry]) -> Sequence[bool]:
        waits = [entry for entry in entries if entry.fact is Fact.WAITS and entry.n == 1]
        self.ledger.record([replace(entry, at=entry.at + timedelta(hours=8)) for entry in waits])
        return self.ledger.record(entries)


def test_a_slice_waits_for_what_its_holder_says_and_not_for_what_somebody_noted_who_had_lost_it() -> None:
    stage = Stage()
    stage.ground.phones.away = True
    stage.mention("nova")
    rows_only(stage)
    stage.pass_time(seconds=1)
    stage.dispatch()
    rivals: Any = Rivals(stage.ground.ledger)
    stage.work(Pool.FCM, by=build_slice_worker(stage.system(ledger=rivals)))
    stage.ground.phones.away = False
    stage.deliver(rounds=90)
    assert alerted(stage) == {"kim", "lee", "roy"}


def test_who_has_lost_a_slice_says_nothing_of_what_it_waits_for() -> None:
    stage = Stage()
    stage.mention("nova")
    [key] = stage.bursts()
    clock, piece = stage.ground.clock, Slice(key, Step.FCM, Tier.P0, 0, 0)

    def overslept(burst: Burst, piece: Slice, hold: SliceLease) -> LedgerEntry:
        clock.advance(piece.terms.claim)
        now = clock.now()
        assert stage.ground.claims.claim(piece, "other", now, now + piece.terms.claim) is not None
        return LedgerEntry(slice=piece, fact=Fact.WAITS, n=0, at=now + timedelta(hours=8))

    work = build_slice_worker(stage.system())
    outcome = replace(work, doings={**work.doings, Step.FCM: overslept})(piece)
    assert outcome == Again(reason="the claim was lost")
    assert stage.ground.ledger.read([key])[key].standings[piece].waits_until is None


class Silent:
    """Nobody can say who is to be spared."""

    def read(self, burst: Burst, shards: Collection[int], now: datetime) -> Mapping[int, Spare]:
        raise StoreUnavailable("for a test")


def test_while_nobody_can_say_who_is_spared_no_phone_rings_and_the_slice_waits() -> None:
    stage = Stage()
    stage.mention("nova")
    rows_only(stage)
    stage.pass_time(seconds=1)
    stage.dispatch()
    silent: Any = Silent()
    outcomes = stage.work(Pool.FCM, by=build_slice_worker(stage.system(spared=silent)))
    assert Again in {type(outcome) for outcome in outcomes}
    assert alerted(stage) == set()
    stage.pass_time(seconds=30)
    stage.deliver()
    assert alerted(stage) == {"kim", "lee", "roy"}
