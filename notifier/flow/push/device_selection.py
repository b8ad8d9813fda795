"""Select step: reads one shard's devices, and drafts batches to send."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, groupby
from operator import attrgetter

from notifier.domain.bursts.burst import Burst
from notifier.domain.push.batch_draft import Draft, SendAttempt, first_alert_draft, in_doubt_draft
from notifier.domain.push.device import Device
from notifier.domain.push.send_log import AttemptState, SendBatch
from notifier.domain.push.shard_state import ShardState
from notifier.ports.push import Devices

DEVICES_PER_BATCH = 2_000
"""Devices after which a batch is full. The fastest provider takes so many in a third of a second. A crash may repeat a
send group, which has up to about twice as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    devices: Devices
    devices_per_batch: int = DEVICES_PER_BATCH

    def drafts(self, burst: Burst, state: ShardState, now: datetime) -> Iterator[Draft]:
        """Yield drafts of batches in doubt, then of due retries, then of members in no batch yet.

        The iterator is lazy: it reads devices as the caller takes drafts.
        """
        numbers = count(state.progress.next_batch_number)
        for batch in state.progress.open_batches:
            yield self._in_doubt(burst, state, batch, now)
        yield from self._retries(state, numbers, now)
        yield from self._first_alerts(burst, state, numbers, now)

    def _in_doubt(self, burst: Burst, state: ShardState, batch: SendBatch, now: datetime) -> Draft:
        members, log_key = batch.alerted & ~state.suppressed, state.log_key
        devices = self.devices.iter_devices(log_key.platform, log_key.shard, members) if members.any() else ()
        return in_doubt_draft(state, burst, batch, devices, now)

    def _retries(self, state: ShardState, numbers: Iterator[int], now: datetime) -> Iterator[Draft]:
        """Yield drafts of due retries. Retries that may not be sent are listed in a batch, too: that ends them."""
        due = state.due_retries(now)
        for start in range(0, len(due), self.devices_per_batch):
            retries = tuple(due[start : start + self.devices_per_batch])
            batch = SendBatch(number=next(numbers), at=now, retries=retries)
            yield Draft(log_key=state.log_key, batch=batch, attempts=self._attempts(state, retries, now))

    def _attempts(self, state: ShardState, retries: Iterable[AttemptState], now: datetime) -> Sequence[SendAttempt]:
        """Return an attempt for each retry that may be sent. A device that now belongs to another member gets none."""
        states = {retry.device: retry for retry in retries if state.may_retry(retry, now)}
        devices_by_member = self.devices.by_member({retry.member for retry in states.values()}) if states else {}
        attempts = list[SendAttempt]()
        for member in sorted(devices_by_member):
            attempts.extend(
                SendAttempt(device=device, state=states[device.id])
                for device in devices_by_member[member]
                if device.id in states and states[device.id].member == member
            )
        return attempts

    def _first_alerts(self, burst: Burst, state: ShardState, numbers: Iterator[int], now: datetime) -> Iterator[Draft]:
        members, log_key = state.ready, state.log_key
        if not members.any():
            return
        all_devices = self.devices.iter_devices(log_key.platform, log_key.shard, members)
        for devices in _split_between_members(all_devices, self.devices_per_batch):
            yield first_alert_draft(state, burst, devices, next(numbers), now)


def _split_between_members(devices: Iterable[Device], part_size: int) -> Iterator[Sequence[Device]]:
    """Split the devices into parts of about `part_size`, never between two devices of one member."""
    part: list[Device] = []
    for _, devices_of_member in groupby(devices, key=attrgetter("member")):
        part.extend(devices_of_member)
        if len(part) >= part_size:
            yield part
            part = []
    if part:
        yield part
