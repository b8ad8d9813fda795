"""The send log: each batch is stored before it is sent, and its failures afterwards."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest

from notifier.adapters.sqlite.stores.send_log_and_suppressions import BATCH_KEPT_FOR
from notifier.codec.devices_send_log_suppressions import pack_intent, pack_outcome
from notifier.domain.audience.bitmap import Bits, all_members, from_offsets, no_members
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.device import DeviceId
from notifier.domain.push.send_log import (
    AlertOutcome,
    AttemptState,
    FailedAttempt,
    SendBatch,
    SendLogKey,
    SilentReason,
)
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.contract_examples import NOVA, ORION
from tests.support.fakes.clock_and_nonces import START

KEY = BurstKey(NOVA, 1)
SEND_LOG = SendLogKey(KEY, Tier.P1, 3, Platform.APNS)
OTHER_LOGS = [
    replace(SEND_LOG, burst=BurstKey(NOVA, 2)),
    replace(SEND_LOG, burst=BurstKey(ORION, 1)),
    replace(SEND_LOG, tier=Tier.DORMANT),
    replace(SEND_LOG, shard=4),
    replace(SEND_LOG, platform=Platform.FCM),
]
ATTEMPT = AttemptState(
    device=DeviceId("d1"),
    member=Member(3 * 131_072 + 7),
    first_at=START + timedelta(microseconds=1),
    failed_attempts=2,
    late_burst_count=5,
)
FAILED_ATTEMPTS = (
    FailedAttempt(
        state=ATTEMPT, outcome=AlertOutcome.RETRY, at=START + timedelta(seconds=9, microseconds=7), reason="503"
    ),
    FailedAttempt(
        state=replace(ATTEMPT, device=DeviceId("d2"), late_burst_count=0),
        outcome=AlertOutcome.DROPPED,
        reason="Unregistered",
    ),
    FailedAttempt(
        state=replace(ATTEMPT, device=DeviceId("d3")),
        outcome=AlertOutcome.HELD,
        at=START + timedelta(hours=1),
        reason="circuit open",
    ),
)


def batch(n: int = 0, people: Bits | None = None) -> SendBatch:
    return SendBatch(number=n, at=START, members=from_offsets([7]) if people is None else people)


FULL_BATCH = SendBatch(
    number=0,
    at=START + timedelta(microseconds=123_456),
    members=from_offsets(range(2_000)),
    summaries={(7,): from_offsets([1, 2]), (1, 7, 1_000_000): all_members()},
    silent={SilentReason.HOURLY: from_offsets([3]), SilentReason.COLLAPSED: from_offsets(range(4, 9_000))},
    retries=(ATTEMPT, replace(ATTEMPT, device=DeviceId("d3"))),
)


def read(backend: Backend, send_log: SendLogKey = SEND_LOG) -> Sequence[SendBatch]:
    return backend.send_log.read(send_log.burst, send_log.platform, [send_log.shard]).get(send_log, [])


def packed(batches: Sequence[SendBatch]) -> list[tuple[int, bytes, bytes | None]]:
    """Return comparable bytes: bitmaps do not compare as values."""
    return [
        (batch_.number, pack_intent(batch_), None if batch_.failures is None else pack_outcome(batch_))
        for batch_ in batches
    ]


def packed_logs(
    logs: Mapping[SendLogKey, Sequence[SendBatch]],
) -> dict[SendLogKey, list[tuple[int, bytes, bytes | None]]]:
    return {send_log: packed(batches) for send_log, batches in logs.items()}


def test_written_batch_is_read_back_as_open(backend: Backend) -> None:
    assert backend.send_log.write_ahead([(SEND_LOG, FULL_BATCH)]) == [True]
    [stored] = read(backend)
    assert packed([stored]) == packed([FULL_BATCH])
    assert (stored.at, stored.retries, stored.failures) == (FULL_BATCH.at, FULL_BATCH.retries, None)


@pytest.mark.parametrize(
    "people", [no_members(), all_members(), from_offsets(range(0, 131_072, 2))], ids=["no", "all", "half"]
)
def test_batch_holds_any_number_of_people(backend: Backend, people: Bits) -> None:
    backend.send_log.write_ahead([(SEND_LOG, batch(people=people))])
    [stored] = read(backend)
    assert stored.members.tobytes() == people.tobytes()


def test_duplicate_batch_number_is_rejected_and_first_batch_stays(backend: Backend) -> None:
    backend.send_log.write_ahead([(SEND_LOG, FULL_BATCH)])
    backend.send_log.close([(SEND_LOG, replace(FULL_BATCH, failures=FAILED_ATTEMPTS))])
    assert backend.send_log.write_ahead([(SEND_LOG, batch(0)), (SEND_LOG, batch(1))]) == [False, True]
    assert packed(read(backend)) == packed([replace(FULL_BATCH, failures=FAILED_ATTEMPTS), batch(1)])


def test_first_batch_of_a_number_in_one_call_wins(backend: Backend) -> None:
    batches = [(SEND_LOG, FULL_BATCH), (SEND_LOG, batch(1)), (SEND_LOG, batch(0)), (OTHER_LOGS[0], batch(0))]
    assert backend.send_log.write_ahead(batches) == [True, True, False, True]
    assert packed(read(backend)) == packed([FULL_BATCH, batch(1)])


def test_concurrent_batches_of_one_number_have_one_winner(backend: Backend) -> None:
    first, second = batch(people=from_offsets([1])), batch(people=from_offsets([2]))
    barrier = Barrier(2)

    def write_ahead(batch_: SendBatch) -> bool:
        barrier.wait(10)
        [accepted] = backend.send_log.write_ahead([(SEND_LOG, batch_)])
        return accepted

    with ThreadPoolExecutor(2) as threads:
        accepted = list(threads.map(write_ahead, [first, second]))
    assert sorted(accepted) == [False, True]
    assert packed(read(backend)) == packed([first if accepted[0] else second])


def test_failed_attempts_are_read_back_unchanged(backend: Backend) -> None:
    backend.send_log.write_ahead([(SEND_LOG, FULL_BATCH), (SEND_LOG, batch(1))])
    backend.send_log.close([(SEND_LOG, replace(FULL_BATCH, failures=FAILED_ATTEMPTS))])
    assert [batch_.failures for batch_ in read(backend)] == [FAILED_ATTEMPTS, None]
    assert packed(read(backend)) == packed([replace(FULL_BATCH, failures=FAILED_ATTEMPTS), batch(1)])


def test_batch_can_be_closed_without_failures(backend: Backend) -> None:
    backend.send_log.write_ahead([(SEND_LOG, batch())])
    backend.send_log.close([(SEND_LOG, replace(batch(), failures=()))])
    assert [batch_.failures for batch_ in read(backend)] == [()]


def test_failed_attempts_can_be_written_again_and_last_write_wins(backend: Backend) -> None:
    backend.send_log.write_ahead([(SEND_LOG, batch())])
    for failures in (FAILED_ATTEMPTS, FAILED_ATTEMPTS[:1]):
        backend.send_log.close([(SEND_LOG, replace(batch(), failures=failures))])
    assert [batch_.failures for batch_ in read(backend)] == [FAILED_ATTEMPTS[:1]]


def test_send_logs_are_independent(backend: Backend) -> None:
    all_logs = [SEND_LOG, *OTHER_LOGS]
    assert all(backend.send_log.write_ahead([(send_log, batch()) for send_log in all_logs]))
    for send_log in OTHER_LOGS:
        backend.send_log.close([(send_log, replace(batch(), failures=FAILED_ATTEMPTS))])
    assert [[batch_.failures for batch_ in read(backend, send_log)] for send_log in all_logs] == [[None]] + 5 * [
        [FAILED_ATTEMPTS]
    ]


def test_one_read_returns_all_tiers_of_shards_and_provider(backend: Backend) -> None:
    expected = [replace(SEND_LOG, tier=tier, shard=shard) for tier in (Tier.P0, Tier.P2) for shard in (0, 1_525)]
    backend.send_log.write_ahead([(send_log, batch()) for send_log in [*expected, *OTHER_LOGS]])
    logs = backend.send_log.read(KEY, Platform.APNS, range(1_525, -1, -5))
    assert packed_logs(logs) == {send_log: packed([batch()]) for send_log in expected}
    assert backend.send_log.read(KEY, Platform.APNS, []) == {}
    assert backend.send_log.read(KEY, Platform.WEB, [3]) == {}


def test_batches_are_returned_in_order(backend: Backend) -> None:
    backend.send_log.write_ahead([(SEND_LOG, batch(n)) for n in (10, 2, 0, 9, 1)])
    backend.send_log.write_ahead([(SEND_LOG, batch(n)) for n in (11, 3)])
    assert [batch_.number for batch_ in read(backend)] == [0, 1, 2, 3, 9, 10, 11]


def test_sqlite_deletes_expired_batches_on_next_write(sqlite: Backend) -> None:
    expired, current = [replace(SEND_LOG, shard=shard) for shard in range(3)], replace(SEND_LOG, shard=9)
    sqlite.send_log.write_ahead([(send_log, batch()) for send_log in expired])
    sqlite.clock.advance(BATCH_KEPT_FOR - timedelta(milliseconds=1))
    sqlite.send_log.write_ahead([(current, SendBatch(number=0, at=sqlite.clock.now()))])
    assert len(sqlite.send_log.read(KEY, Platform.APNS, range(10))) == 4
    sqlite.clock.advance(timedelta(milliseconds=1))
    for n in (1, 2):
        sqlite.send_log.write_ahead([(current, SendBatch(number=n, at=sqlite.clock.now()))])
    assert list(sqlite.send_log.read(KEY, Platform.APNS, range(10))) == [current]
