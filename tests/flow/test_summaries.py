"""Of which bursts an alert that is late tells: each is told by itself or by a newer one that was told and names it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest

from notifier.domain.alert import Mentioned, WhileAway
from notifier.domain.bits import holds
from notifier.domain.device import AppleToken, Device, FirebaseToken, Platform, gone
from notifier.domain.errors import StoreUnavailable
from notifier.domain.lateness import STALE
from notifier.domain.ledger import Account
from notifier.domain.marks import Mark
from notifier.domain.outcome import Done
from notifier.domain.overall import OverallWish
from notifier.domain.quiet import Hours
from notifier.domain.sending import Sending, Why, Window
from notifier.domain.slice import PHONES, Pool
from notifier.domain.subject import BurstKey, Kind, Member, Subject, UserId
from notifier.testing.simulator.script import Changed
from notifier.testing.simulator.visits import driven
from tests.flow.stage import NOVA, Stage
from tests.flow.withdrawn import delete

KIM = UserId("kim")
ORION = Subject(Kind.MENTION, UserId("orion"))
ASLEEP = OverallWish(quiet=Hours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""Where it is nine in the evening when it is noon by UTC, and five in the morning at 20:00."""
NIGHT = timedelta(hours=8)


def member(stage: Stage, name: str = KIM) -> Member:
    return Member(stage.scene.people[name].member)


def heard(stage: Stage, name: str = KIM, *, on: Platform = Platform.FCM) -> list[int]:
    """For how many bursts of nova each of the person's alerts by that provider stood, one after the other."""
    found = []
    for sent, device in stage.ground.phones.arrived:
        if (device.member, device.platform, sent.subject) == (member(stage, name), on, NOVA):
            match sent.news:
                case Mentioned():
                    found.append(1)
                case WhileAway(count=count):
                    found.append(count)
    return found


def asleep(stage: Stage, *names: str) -> None:
    for name in names or (KIM,):
        stage.ground.people.arrange(UserId(name), ASLEEP)


def mention(stage: Stage, *names: str, of: str = "", author: str = "ada") -> None:
    """A burst of its own, whose phones rang, but of those who sleep."""
    stage.mention(*(names or ("nova",)), of=of or f"t{len(stage.bursts())}", author=author)
    stage.deliver_others()
    stage.pass_time(seconds=61)


def gets_up(stage: Stage) -> None:
    stage.ground.clock.advance(NIGHT)
    stage.dispatch()


def work(stage: Stage, burst: BurstKey, *pools: Pool) -> None:
    """The slices of this burst alone; the others stay in their queues."""
    done = stage.system().work()
    for pool in pools or map(Pool, PHONES):
        waiting = stage.ground.queue.waiting[pool]
        for piece in [piece for piece in waiting if piece.burst == burst]:
            waiting.remove(piece)
            done(piece)


def windows(stage: Stage, burst: BurstKey) -> list[Window]:
    """Of kim, on any provider."""
    of = [some for sending, some in stage.ground.sent.windows.items() if sending.burst == burst]
    return [one for some in of for one in some.values() if holds(one.people, member(stage))]


def by(stage: Stage, *platforms: Platform) -> None:
    """From now on alerts go to these."""
    providers = dict.fromkeys(platforms, stage.ground.phones)
    stage.ports = replace(stage.ports, providers=providers, platforms=list(platforms))
    stage._dispatcher = None


def with_apple(stage: Stage) -> Device:
    """Kim's, beside the one that she has."""
    address = AppleToken(token="ab" * 32, topic="app")
    device = Device(member=member(stage), address=address, registered_at=stage.ground.clock.now())
    stage.ground.devices.write([device])
    return device


def test_an_older_one_waits_for_the_newer_and_is_collapsed_once_that_has_told_of_it() -> None:
    stage = Stage()
    asleep(stage)
    mention(stage)
    mention(stage)
    gets_up(stage)
    older, newer = stage.bursts()
    work(stage, older)
    assert (heard(stage), windows(stage, older)) == ([], [])
    work(stage, newer)
    [window] = windows(stage, newer)
    assert (heard(stage), window.tells(member(stage))) == ([2], (older.seq,))
    stage.deliver(rounds=60)
    [window] = windows(stage, older)
    assert (heard(stage), [*window.silent]) == ([2], [Why.COLLAPSED])


def took_back(stage: Stage) -> None:
    delete(stage, "newest")
    stage.sequence()


def marked(mark: Mark) -> Callable[[Stage], None]:
    return lambda stage: driven(stage.tab().mark(KIM, [stage.bursts()[-1]], mark))


@pytest.mark.parametrize("deed", [took_back, marked(Mark.READ), marked(Mark.HIDDEN)], ids=["back", "read", "hidden"])
def test_where_the_newest_is_told_no_more_the_next_one_tells_of_the_others(deed: Callable[[Stage], None]) -> None:
    stage = Stage()
    asleep(stage)
    for of in ("one", "two", "newest"):
        mention(stage, of=of)
    gets_up(stage)
    for burst in stage.bursts()[:2]:
        work(stage, burst)
    deed(stage)
    stage.deliver(rounds=90)
    assert heard(stage) == [2]


def test_where_another_account_s_followers_were_told_of_the_newest_s_tweet_the_next_one_tells_of_the_others() -> None:
    stage = Stage()
    asleep(stage)
    mention(stage)
    mention(stage)
    mention(stage, "nova", "orion", of="of both")
    gets_up(stage)
    work(stage, stage.bursts(ORION)[-1])
    stage.deliver(rounds=90)
    assert heard(stage) == [2]
    [window] = windows(stage, stage.bursts()[-1])
    assert [*window.silent] == [Why.SAME_TWEET]


def test_an_older_one_is_told_where_a_newer_one_was_told_before_anybody_knew_whom_it_was_for() -> None:
    stage = Stage()
    stage.mention("nova", of="older")
    stage.dispatch()
    stage.pass_time(minutes=16)
    stage.mention("nova", of="newer")
    _, newer = stage.bursts()
    stage.pass_time(minutes=16)
    for _ in range(3):
        stage.dispatch()
        work(stage, newer, Pool.P0, Pool.FCM)
        stage.pass_time(seconds=1)
    assert heard(stage) == [1]
    stage.deliver(rounds=90)
    assert heard(stage) == [1, 1]


def test_a_provider_that_the_newer_one_does_not_go_to_is_told_of_the_older_by_itself() -> None:
    stage = Stage()
    with_apple(stage)
    by(stage, Platform.FCM, Platform.APNS)
    asleep(stage)
    mention(stage)
    by(stage, Platform.FCM)
    mention(stage)
    by(stage, Platform.FCM, Platform.APNS)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert heard(stage, on=Platform.FCM) == [2]
    assert heard(stage, on=Platform.APNS) == [1]


def test_a_phone_that_came_once_the_newer_one_was_through_rings_for_the_older() -> None:
    stage = Stage()
    apple = with_apple(stage)
    by(stage, Platform.FCM, Platform.APNS)
    asleep(stage)
    mention(stage)
    mention(stage)
    _, newer = stage.bursts()
    stage.ground.devices.write([gone(apple)])
    gets_up(stage)
    work(stage, newer)
    assert heard(stage, on=Platform.FCM) == [2]
    stage.pass_time(seconds=1)
    with_apple(stage)
    stage.deliver(rounds=90)
    assert heard(stage, on=Platform.APNS) == [1]
    assert heard(stage, on=Platform.FCM) == [2]


def test_a_phone_is_not_told_of_what_was_through_before_it_came() -> None:
    stage = Stage()
    kim = member(stage)
    own = Device(member=kim, address=FirebaseToken(token=KIM), registered_at=stage.ground.clock.now())
    with_apple(stage)
    by(stage, Platform.FCM, Platform.APNS)
    stage.ground.devices.write([gone(own)])
    mention(stage)
    asleep(stage)
    mention(stage)
    stage.ground.devices.write([replace(own, registered_at=stage.ground.clock.now())])
    mention(stage)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert heard(stage, on=Platform.APNS) == [1, 2]
    assert heard(stage, on=Platform.FCM) == [2]


@pytest.mark.parametrize("idle", ["idle:100", "idle:2000"], ids=["p2", "dormant"])
def test_who_was_in_another_tier_by_then_is_told_of_both_at_once(idle: str) -> None:
    stage = Stage()
    asleep(stage)
    mention(stage)
    for what in (idle, "alerts:on"):
        stage.scene.change(Changed(person=KIM, what=what))
    asleep(stage)
    mention(stage)
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert heard(stage) == [2]
    assert len({sending.tier for sending, some in stage.ground.sent.windows.items() if some}) > 1


def test_bursts_that_never_ring_part_no_summary() -> None:
    """Those of protected accounts, beyond what their purse pays for."""
    stage = Stage()
    asleep(stage)
    mention(stage)
    for n in range(40):
        stage.mention("nova", protected=True, of=f"secret {n}")
    mention(stage, author="bob")
    assert stage.bursts()[-1].seq - stage.bursts()[0].seq > 32
    stage.ground.clock.advance(NIGHT)
    stage.deliver(rounds=90)
    assert heard(stage) == [2]


class Unclosed:
    """A worker's line to the store breaks behind the sends of its first window."""

    def __init__(self, stage: Stage) -> None:
        self._sent, self.broken = stage.ground.sent, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sent, name)

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        if not self.broken:
            self.broken = True
            raise StoreUnavailable
        self._sent.close(windows)


def test_what_a_summary_told_that_is_in_doubt_is_told_by_no_other() -> None:
    stage = Stage()
    asleep(stage)
    mention(stage)
    mention(stage)
    gets_up(stage)
    older, newer = stage.bursts()
    sound = stage.ports
    stage.ports = replace(sound, sent=Unclosed(stage))
    work(stage, newer)
    stage.ports = sound
    work(stage, older)
    [window] = windows(stage, older)
    assert ([*window.silent], heard(stage)) == ([Why.COLLAPSED], [2])
    stage.deliver(rounds=90)
    assert heard(stage) == [2, 2]


def test_who_waits_asks_less_and_less_often_and_is_told_in_the_end() -> None:
    stage = Stage()
    asleep(stage)
    mention(stage)
    mention(stage)
    gets_up(stage)
    older, _ = stage.bursts()
    [piece] = [one for one in stage.ground.queue.waiting[Pool.FCM] if one.burst == older and one.first == 0]
    before = account(stage, older).standings[piece].waited
    for _ in range(20 * 60):
        stage.dispatch()
        work(stage, older)
        stage.ground.queue.waiting[Pool.FCM] = [*dict.fromkeys(stage.ground.queue.waiting[Pool.FCM])]
        stage.pass_time(seconds=1)
    assert 15 < account(stage, older).standings[piece].waited - before < 35
    assert heard(stage) == []
    stage.deliver(rounds=120)
    assert heard(stage) == [2]


def account(stage: Stage, burst: BurstKey) -> Account:
    return stage.ground.ledger.read([burst])[burst]


class Counting:
    """Seals, and of which shards of each burst they were asked at once."""

    def __init__(self, stage: Stage) -> None:
        self._seals, self.asked = stage.ground.seals, list[tuple[BurstKey, tuple[int, ...]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seals, name)

    def read(self, burst: BurstKey, shards: Collection[int]) -> Any:
        self.asked.append((burst, tuple(shards)))
        return self._seals.read(burst, shards)


def test_other_bursts_are_read_once_for_all_shards_of_a_slice() -> None:
    stage = Stage()
    for what in ("vip", "push", "idle:1"):
        stage.scene.change(Changed(person="max", what=what))
    asleep(stage, KIM, "max")
    for n in range(3):
        mention(stage, "orion", of=f"of orion {n}")
    gets_up(stage)
    oldest, older, newest = stage.bursts(ORION)
    counting = Counting(stage)
    stage.ports = replace(stage.ports, seals=counting)
    work(stage, newest)
    assert counting.asked == [(older, (0, 1)), (oldest, (0, 1))]


def test_what_is_in_time_waits_for_nothing_and_asks_for_no_other() -> None:
    stage = Stage()
    mention(stage)
    stage.mention("nova", of="newer")
    counting = Counting(stage)
    stage.ports = replace(stage.ports, seals=counting)
    stage.dispatch()
    stage.work(Pool.P0)
    stage.pass_time(seconds=1)
    stage.dispatch()
    counting.asked.clear()
    stage.pass_time(seconds=STALE.total_seconds() - 1 - 1)
    outcomes = stage.work(Pool.FCM)
    assert any(isinstance(outcome, Done) for outcome in outcomes)
    assert (heard(stage), counting.asked) == ([1, 1], [])
