"""Admission: members of a batch that are left out while circuit breakers are open."""

from collections.abc import Sequence

from notifier.domain.audience.bitmap import from_offsets, members
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.batch_draft import Draft, SendAttempt
from notifier.domain.push.circuit_breaker import Open
from notifier.domain.push.device import Device, WebSubscription
from notifier.domain.push.send_log import AttemptState, SendBatch, SendLogKey, SilentReason
from notifier.flow.push.circuit_breakers import CircuitBreakers, admit
from notifier.metrics import Metrics
from tests.support.domain_examples import NOON, SECOND
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.push import MemoryCircuitReport

OPEN, CLOSED = "web open.example", "web closed.example"
LOG_KEY = SendLogKey(BurstKey.parse("mention:nova#1"), Tier.P1, 0, Platform.WEB)


def attempt(member: int, line: str) -> SendAttempt:
    host = line.removeprefix("web ")
    address = WebSubscription(endpoint=f"https://{host}/{member}", key=b"k", secret=b"s")
    device = Device(member=Member(member), address=address, registered_at=NOON)
    return SendAttempt(device=device, state=AttemptState(device=device.id, member=Member(member), first_at=NOON))


def breakers(open_for: float = 0.0) -> CircuitBreakers:
    clock = ManualClock(NOON)
    created = CircuitBreakers(clock=clock, circuit_report=MemoryCircuitReport(clock), metrics=Metrics())
    created.breakers_by_line[OPEN] = Open(since=NOON - open_for * SECOND, reason="503")
    return created


def first_alerts(*attempts: SendAttempt, capped: int | None = None) -> Draft:
    people = from_offsets({entry.state.member for entry in attempts})
    silent = {} if capped is None else {SilentReason.DAILY: from_offsets([capped])}
    for bits in silent.values():
        people = people | bits
    batch = SendBatch(number=0, at=NOON, members=people, silent=silent)
    return Draft(log_key=LOG_KEY, batch=batch, attempts=attempts)


def recipients(draft: Draft) -> Sequence[int]:
    return [entry.state.member for entry in draft.attempts]


def test_member_without_reachable_device_is_left_out_of_the_batch() -> None:
    devices = [attempt(2, OPEN), attempt(2, CLOSED)]
    batch = [first_alerts(attempt(1, OPEN), *devices, attempt(3, CLOSED), capped=9)]
    admission = admit(breakers(), batch)
    [draft] = admission.drafts
    assert (recipients(draft), members(draft.batch.members, 0)) == ([2, 2, 3], [2, 3, 9])
    assert members(draft.batch.alerted, 0) == [2, 3]
    assert admission.blocked_lines == {OPEN}


def test_draft_without_members_is_dropped_unless_a_crash_left_its_batch() -> None:
    in_doubt = Draft(log_key=LOG_KEY, batch=SendBatch(number=1, at=NOON), attempts=(), is_in_doubt=True)
    assert admit(breakers(), [first_alerts(attempt(1, OPEN)), in_doubt]).drafts == [in_doubt]


def test_half_open_breaker_admits_members_for_its_trial_calls() -> None:
    batch = [first_alerts(*(attempt(n, OPEN) for n in numbers)) for numbers in (range(2), range(2, 9))]
    admission = admit(breakers(open_for=31), batch)
    first, second = admission.drafts
    assert (recipients(first), recipients(second)) == ([0, 1], [2])
    assert members(second.batch.members, 0) == [2]
    assert admission.blocked_lines == {OPEN}


def test_blocked_retry_keeps_waiting_and_expired_one_stays_in_the_batch() -> None:
    waiting, admitted = attempt(1, OPEN), attempt(2, CLOSED)
    expired = AttemptState(device=attempt(3, OPEN).device.id, member=Member(3), first_at=NOON)
    batch = SendBatch(number=4, at=NOON, retries=(waiting.state, admitted.state, expired))
    [draft] = admit(breakers(), [Draft(log_key=LOG_KEY, batch=batch, attempts=[waiting, admitted])]).drafts
    assert (recipients(draft), draft.batch.retries) == ([2], (admitted.state, expired))


def test_batch_is_unchanged_while_all_breakers_are_closed() -> None:
    batch = [first_alerts(attempt(1, OPEN))]
    closed = breakers()
    closed.breakers_by_line.clear()
    assert admit(closed, batch).drafts is batch
