"""Compares the alerts that each worker sends with those the oracle allows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import contains, shard_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Slice
from notifier.domain.errors import Unavailable
from notifier.domain.ids import BurstKey
from notifier.domain.push.alert import Alert, SummaryAlert
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import AlertOutcome, SendBatch
from notifier.ports.ledger_claims_deferred_bursts_scan import Claims
from tests.support.fakes.push import MemoryProvider
from tests.support.oracle import InboxMarks
from tests.support.simulator.oracle_input_reader import StateReader, key_of

LATE = timedelta(minutes=15)
"""Age of a burst from which its alert also summarizes older ones."""

Name = tuple[Tier, int, datetime]
"""Identifies a batch within a burst and shard: tier, number and time."""


@dataclass(slots=True)
class PushObserver:
    """Observes all workers, which are named by owner."""

    state_reader: StateReader
    marked: dict[str, InboxMarks] = field(default_factory=dict)
    """Marks by user, added only once they are in the store."""
    allowed_at_claim: dict[tuple[str, BurstKey], frozenset[int]] = field(default_factory=dict)
    """Members that a worker could alert when it claimed its slice, quiet hours ignored. If late, also those of older
    bursts."""
    awake: dict[str, frozenset[int]] = field(default_factory=dict)
    """Members outside quiet hours when a worker claimed its slice."""
    first: dict[tuple[BurstKey, Device], Name] = field(default_factory=dict)
    """Batch of the first alert to each device."""
    accepted_in: dict[tuple[BurstKey, Device], set[Name]] = field(default_factory=dict)
    """Batches that were open when the provider accepted the alert for the device."""
    wrong: list[str] = field(default_factory=list)

    def note_claim(self, owner: str, burst: BurstKey) -> None:
        self.allowed_at_claim[owner, burst], self.awake[owner] = self._may(burst), self._awake()
        by_key, now = self.state_reader.state.bursts.by_key, self.state_reader.state.clock.now()
        if now > by_key[burst].opened_at + LATE:
            older = (key for key in by_key if key.subject == burst.subject and key.seq < burst.seq)
            self.allowed_at_claim |= {(owner, key): self._may(key) for key in older}

    def check_alert(self, owner: str, alert: Alert, device: Device) -> None:
        """Check an alert against the send log and the oracle.

        The send log must have it as in flight. A member of one batch is in no later one. An accepted alert is sent
        again only while that is not recorded, or recorded as unknown. A member who could be alerted neither at the
        claim nor now must not be. The alert counts as many bursts as its batch names.
        """
        burst, member = alert.burst, device.member
        open_batches = self._open_batches(burst, device)
        if not open_batches:
            self.wrong.append(f"{member} was alerted of {burst} without an intent")
        first_time = [name for name, batch in open_batches.items() if contains(batch.alerted, member)]
        if any(self.first.setdefault((burst, device), name) != name for name in first_time):
            self.wrong.append(f"{member} was alerted of {burst} as if for the first time, and had been before")
        if (accepted_in := self.accepted_in.get((burst, device))) and not accepted_in & self._in_doubt(burst, device):
            self.wrong.append(f"{member} was alerted of {burst} again, on a phone that is noted to have it")
        if open_batches and (count := _burst_count(alert)) not in {
            _noted(batch, device) for batch in open_batches.values()
        }:
            self.wrong.append(f"{member} was alerted of {burst} as one of {count}, which no batch records")
        older_seqs = {seq for batch in open_batches.values() for seq in batch.covered_by_alert(member)}
        if member not in self.awake.get(owner, frozenset()) | self._awake():
            self.wrong.append(f"{member} was alerted of {burst} while asleep")
        for key in (burst, *(BurstKey(burst.subject, seq) for seq in older_seqs)):
            if member not in self.allowed_at_claim.get((owner, key), frozenset()) | self._may(key):
                self.wrong.append(
                    f"{member} was alerted of {key} after having seen, muted or blocked, or after its retraction"
                )

    def note_accepted(self, burst: BurstKey, device: Device) -> None:
        self.accepted_in.setdefault((burst, device), set()).update(self._open_batches(burst, device))

    def _open_batches(self, burst: BurstKey, device: Device) -> Mapping[Name, SendBatch]:
        """Return the open batches that include the device."""
        return {
            name: batch
            for name, batch in self._batches(burst, device)
            if batch.is_open
            if contains(batch.alerted, device.member) or device.id in {tried.device for tried in batch.retries}
        }

    def _in_doubt(self, burst: BurstKey, device: Device) -> set[Name]:
        """Return the batches in which delivery to the device is open or unknown.

        A worker that takes over from a dead one records the outcome as unknown.
        """
        return {
            name
            for name, batch in self._batches(burst, device)
            if batch.failures is None
            or any(
                attempt.state.device == device.id and attempt.outcome is AlertOutcome.UNKNOWN
                for attempt in batch.failures
            )
        }

    def _batches(self, burst: BurstKey, device: Device) -> Iterator[tuple[Name, SendBatch]]:
        send_logs = self.state_reader.state.send_log.read(burst, device.platform, [shard_of(device.member)])
        for sending, batches in send_logs.items():
            yield from (((sending.tier, batch.number, batch.at), batch) for batch in batches)

    def always(self, burst: BurstKey) -> frozenset[int]:
        """Return the members who could be alerted at every moment so far, quiet hours ignored.

        Users who marked or opened the burst are excluded.
        """
        oracle, now = self.state_reader.oracle(), self.state_reader.state.clock.now()
        observed = oracle.bursts[key_of(burst)]
        if oracle.silent(observed):
            return frozenset()
        states = self.state_reader.population.all_states()
        excluded = {
            p.member for p in states if not p.push or not oracle.allows_alert(p, observed, self._marked(p.name), now)
        }
        return self._may(burst) - excluded

    def _awake(self) -> frozenset[int]:
        now, possible = self.state_reader.state.clock.now(), self.state_reader.population.possible_states().values()
        return frozenset(p.member for people in possible for p in people if not p.sleeps(now))

    def _may(self, burst: BurstKey) -> frozenset[int]:
        oracle, now = self.state_reader.lenient(), self.state_reader.state.clock.now()
        observed, possible = oracle.bursts[key_of(burst)], self.state_reader.population.possible_states().values()
        return frozenset(
            p.member
            for people in possible
            for p in people
            if oracle.allows_alert(p, observed, self._marked(p.name), now)
        )

    def _marked(self, name: str) -> InboxMarks:
        return self.marked.get(name, InboxMarks())


def _burst_count(alert: Alert) -> int:
    return alert.content.count if isinstance(alert.content, SummaryAlert) else 1


def _noted(batch: SendBatch, device: Device) -> int:
    """Return how many bursts the batch's alert to the device stands for."""
    again = [tried.late_burst_count for tried in batch.retries if tried.device == device.id]
    return max(1, *again) if again else 1 + len(batch.covered_by_alert(device.member))


@dataclass(frozen=True, slots=True)
class ObservedClaims:
    """The claims of one worker."""

    claims: Claims
    push_observer: PushObserver

    def claim(self, slice_: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = self.claims.claim(slice_, owner, now, until)
        if claim is not None and slice_.step in PUSH_STEPS:
            self.push_observer.note_claim(owner, slice_.burst)
        return claim

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self.claims.renew(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self.claims.release(claim, now)


@dataclass(frozen=True, slots=True)
class ObservedPhones:
    """Provider of one worker. If the connection fails, it reports whether the alert may have arrived."""

    proxied_phones: MemoryProvider
    phones: MemoryProvider
    push_observer: PushObserver
    owner: str

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        for device in devices:
            self.push_observer.check_alert(self.owner, alert, device)
            receipt = self._ring(alert, device)
            if isinstance(receipt, Accepted):
                self.push_observer.note_accepted(alert.burst, device)
            yield device, receipt

    def _ring(self, alert: Alert, device: Device) -> Receipt:
        before = len(self.phones.arrived)
        try:
            return self.proxied_phones.ring(alert, device)
        except Unavailable as cause:
            if (alert, device) in self.phones.arrived[before:]:
                return Unknown(reason=str(cause))
            return RetryAt(
                at=self.push_observer.state_reader.state.clock.now() + timedelta(seconds=10), reason=str(cause)
            )
