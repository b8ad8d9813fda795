"""Who is in a window, by the lines of whose devices something may be sent now."""

from collections.abc import Sequence

from notifier.domain.audience.bitmap import Bits, from_offsets, members
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.circuit_breaker import Open
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.send_log import Sending, Try, Why, Window
from notifier.flow.push.batches import Call, Part
from notifier.flow.push.circuit_breakers import Breakers, Reachable
from notifier.metrics import Metrics
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.push import MemoryLineReport
from tests.unit.examples import NOON, SECOND

SHUT, WELL = "web shut.example", "web well.example"
SENDING = Sending(BurstKey.parse("mention:nova#1"), Tier.P1, 0, Platform.WEB)


def call(member: int, line: str, number: int = 0) -> Call:
    host = line.removeprefix("web ")
    address = WebSubscription(endpoint=f"https://{host}/{member}/{number}", key=b"k", secret=b"s")
    device = Device(member=Member(member), address=address, registered_at=NOON)
    return Call(device=device, tried=Try(device=device.id, member=Member(member), first=NOON))


def people(*them: int) -> Bits:
    return from_offsets(them)


def breakers(shut_since: float = 0.0) -> Breakers:
    clock = ManualClock(NOON)
    made = Breakers(clock=clock, report=MemoryLineReport(clock), metrics=Metrics())
    made.lines[SHUT] = Open(since=NOON - shut_since * SECOND, reason="503")
    return made


def fresh(*calls: Call, silent: Bits | None = None) -> Part:
    told = people(*{one.tried.member for one in calls})
    everybody = told if silent is None else told | silent
    window = Window(n=0, at=NOON, people=everybody, silent={} if silent is None else {Why.DAILY: silent})
    return Part(sending=SENDING, window=window, calls=calls)


def lines(part: Part) -> Sequence[int]:
    return [one.tried.member for one in part.calls]


def test_who_has_nothing_but_devices_behind_a_line_that_is_shut_is_in_no_window() -> None:
    reachable = Reachable(breakers=breakers())
    mixed = [call(2, SHUT), call(2, WELL)]
    [part] = reachable([fresh(call(1, SHUT), *mixed, call(3, WELL), silent=people(9))])
    assert (lines(part), members(part.window.people, 0)) == ([2, 2, 3], [2, 3, 9])
    assert members(part.window.told, 0) == [2, 3]
    assert reachable.shut == {SHUT}


def test_what_is_left_of_nobody_is_not_written_and_what_a_crash_left_is() -> None:
    reachable = Reachable(breakers=breakers())
    broken = Part(sending=SENDING, window=Window(n=1, at=NOON), calls=(), written=True)
    assert reachable([fresh(call(1, SHUT)), broken]) == [broken]


def test_behind_its_rest_a_line_has_room_for_as_many_as_its_breaker_lets_through() -> None:
    reachable = Reachable(breakers=breakers(shut_since=31))
    first, second = reachable([fresh(*(call(n, SHUT) for n in range(2))), fresh(*(call(n, SHUT) for n in range(2, 9)))])
    assert (lines(first), lines(second)) == ([0, 1], [2])
    assert members(second.window.people, 0) == [2]
    assert reachable.shut == {SHUT}


def test_of_what_is_tried_again_the_others_wait_on_and_what_is_over_is_noted() -> None:
    waiting, going = call(1, SHUT), call(2, WELL)
    over = Try(device=call(3, SHUT).device.id, member=Member(3), first=NOON)
    window = Window(n=4, at=NOON, again=(waiting.tried, going.tried, over))
    [part] = Reachable(breakers=breakers())([Part(sending=SENDING, window=window, calls=[waiting, going])])
    assert (lines(part), part.window.again) == ([2], (going.tried, over))


def test_where_nobody_is_in_trouble_nothing_is_looked_at() -> None:
    parts = [fresh(call(1, SHUT))]
    well = breakers()
    well.lines.clear()
    assert Reachable(breakers=well)(parts) is parts
