"""The contract of what was sent: a window stands before it is sent, whoever dies, and says after it what was missed."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest

from notifier.adapters.sqlite.stores.push import KEPT
from notifier.codec.push import pack_intent, pack_outcome
from notifier.domain.audience.bitmap import Bits, everybody, from_offsets, nobody
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.device import DeviceId
from notifier.domain.push.send_log import AlertOutcome, FailedAttempt, Sending, Try, Why, Window
from tests.contracts.backends import Backend
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock import START

KEY = BurstKey(NOVA, 1)
SENDING = Sending(KEY, Tier.P1, 3, Platform.APNS)
OTHERS = [
    replace(SENDING, burst=BurstKey(NOVA, 2)),
    replace(SENDING, burst=BurstKey(ORION, 1)),
    replace(SENDING, tier=Tier.DORMANT),
    replace(SENDING, shard=4),
    replace(SENDING, platform=Platform.FCM),
]
TRIED = Try(
    device=DeviceId("d1"), member=Member(3 * 131_072 + 7), first=START + timedelta(microseconds=1), tries=2, away=5
)
MISSED = (
    FailedAttempt(tried=TRIED, fate=AlertOutcome.RETRY, at=START + timedelta(seconds=9, microseconds=7), reason="503"),
    FailedAttempt(
        tried=replace(TRIED, device=DeviceId("d2"), away=0), fate=AlertOutcome.DROPPED, reason="Unregistered"
    ),
    FailedAttempt(
        tried=replace(TRIED, device=DeviceId("d3")),
        fate=AlertOutcome.HELD,
        at=START + timedelta(hours=1),
        reason="circuit open",
    ),
)


def window(n: int = 0, people: Bits | None = None) -> Window:
    return Window(n=n, at=START, people=from_offsets([7]) if people is None else people)


WHOLE = Window(
    n=0,
    at=START + timedelta(microseconds=123_456),
    people=from_offsets(range(2_000)),
    away={(7,): from_offsets([1, 2]), (1, 7, 1_000_000): everybody()},
    silent={Why.HOURLY: from_offsets([3]), Why.COLLAPSED: from_offsets(range(4, 9_000))},
    again=(TRIED, replace(TRIED, device=DeviceId("d3"))),
)


def read(backend: Backend, sending: Sending = SENDING) -> Sequence[Window]:
    return backend.sent.read(sending.burst, sending.platform, [sending.shard]).get(sending, [])


def packed(windows: Sequence[Window]) -> list[tuple[int, bytes, bytes | None]]:
    """Bitmaps don't compare as values, their bytes do."""
    return [(one.n, pack_intent(one), None if one.missed is None else pack_outcome(one)) for one in windows]


def all_of(found: Mapping[Sending, Sequence[Window]]) -> dict[Sending, list[tuple[int, bytes, bytes | None]]]:
    return {sending: packed(windows) for sending, windows in found.items()}


def test_what_was_intended_is_read_back_whole_and_on_its_way(backend: Backend) -> None:
    assert backend.sent.intend([(SENDING, WHOLE)]) == [True]
    [found] = read(backend)
    assert packed([found]) == packed([WHOLE])
    assert (found.at, found.again, found.missed) == (WHOLE.at, WHOLE.again, None)


@pytest.mark.parametrize(
    "people", [nobody(), everybody(), from_offsets(range(0, 131_072, 2))], ids=["no", "all", "half"]
)
def test_a_window_holds_any_number_of_people(backend: Backend, people: Bits) -> None:
    backend.sent.intend([(SENDING, window(people=people))])
    [found] = read(backend)
    assert found.people.tobytes() == people.tobytes()


def test_a_number_that_is_taken_is_refused_and_the_window_that_has_it_stands(backend: Backend) -> None:
    backend.sent.intend([(SENDING, WHOLE)])
    backend.sent.close([(SENDING, replace(WHOLE, missed=MISSED))])
    assert backend.sent.intend([(SENDING, window(0)), (SENDING, window(1))]) == [False, True]
    assert packed(read(backend)) == packed([replace(WHOLE, missed=MISSED), window(1)])


def test_of_two_windows_of_one_number_in_one_call_the_first_stands(backend: Backend) -> None:
    windows = [(SENDING, WHOLE), (SENDING, window(1)), (SENDING, window(0)), (OTHERS[0], window(0))]
    assert backend.sent.intend(windows) == [True, True, False, True]
    assert packed(read(backend)) == packed([WHOLE, window(1)])


def test_of_two_who_give_a_number_at_once_one_is_told_that_he_lost(backend: Backend) -> None:
    mine, theirs = window(people=from_offsets([1])), window(people=from_offsets([2]))
    both = Barrier(2)

    def intend(one: Window) -> bool:
        both.wait(10)
        [written] = backend.sent.intend([(SENDING, one)])
        return written

    with ThreadPoolExecutor(2) as threads:
        written = list(threads.map(intend, [mine, theirs]))
    assert sorted(written) == [False, True]
    assert packed(read(backend)) == packed([mine if written[0] else theirs])


def test_what_was_missed_is_read_back_whole(backend: Backend) -> None:
    backend.sent.intend([(SENDING, WHOLE), (SENDING, window(1))])
    backend.sent.close([(SENDING, replace(WHOLE, missed=MISSED))])
    assert [one.missed for one in read(backend)] == [MISSED, None]
    assert packed(read(backend)) == packed([replace(WHOLE, missed=MISSED), window(1)])


def test_nothing_missed_is_an_outcome(backend: Backend) -> None:
    backend.sent.intend([(SENDING, window())])
    backend.sent.close([(SENDING, replace(window(), missed=()))])
    assert [one.missed for one in read(backend)] == [()]


def test_what_was_missed_may_be_said_again_and_the_last_word_stands(backend: Backend) -> None:
    backend.sent.intend([(SENDING, window())])
    for missed in (MISSED, MISSED[:1]):
        backend.sent.close([(SENDING, replace(window(), missed=missed))])
    assert [one.missed for one in read(backend)] == [MISSED[:1]]


def test_sendings_are_apart(backend: Backend) -> None:
    everyone = [SENDING, *OTHERS]
    assert all(backend.sent.intend([(sending, window()) for sending in everyone]))
    for sending in OTHERS:
        backend.sent.close([(sending, replace(window(), missed=MISSED))])
    assert [[one.missed for one in read(backend, sending)] for sending in everyone] == [[None]] + 5 * [[MISSED]]


def test_one_look_finds_every_tier_of_those_shards_of_one_provider(backend: Backend) -> None:
    wanted = [replace(SENDING, tier=tier, shard=shard) for tier in (Tier.P0, Tier.P2) for shard in (0, 1_525)]
    backend.sent.intend([(sending, window()) for sending in [*wanted, *OTHERS]])
    found = backend.sent.read(KEY, Platform.APNS, range(1_525, -1, -5))
    assert all_of(found) == {sending: packed([window()]) for sending in wanted}
    assert backend.sent.read(KEY, Platform.APNS, []) == {}
    assert backend.sent.read(KEY, Platform.WEB, [3]) == {}


def test_windows_come_in_their_order(backend: Backend) -> None:
    backend.sent.intend([(SENDING, window(n)) for n in (10, 2, 0, 9, 1)])
    backend.sent.intend([(SENDING, window(n)) for n in (11, 3)])
    assert [one.n for one in read(backend)] == [0, 1, 2, 3, 9, 10, 11]


def test_in_a_file_windows_go_when_their_time_is_over_as_the_next_are_written(sqlite: Backend) -> None:
    old, late = [replace(SENDING, shard=shard) for shard in range(3)], replace(SENDING, shard=9)
    sqlite.sent.intend([(sending, window()) for sending in old])
    sqlite.clock.advance(KEPT - timedelta(milliseconds=1))
    sqlite.sent.intend([(late, Window(n=0, at=sqlite.clock.now()))])
    assert len(sqlite.sent.read(KEY, Platform.APNS, range(10))) == 4
    sqlite.clock.advance(timedelta(milliseconds=1))
    for n in (1, 2):
        sqlite.sent.intend([(late, Window(n=n, at=sqlite.clock.now()))])
    assert list(sqlite.sent.read(KEY, Platform.APNS, range(10))) == [late]
