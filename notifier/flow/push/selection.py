"""Select step: reads the devices of one shard and drafts windows to send."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, groupby
from operator import attrgetter

from notifier.domain.bursts.burst import Burst
from notifier.domain.push.device import Device
from notifier.domain.push.draft import Draft, SendAttempt, first_alert_draft, in_doubt_draft
from notifier.domain.push.send_log import AttemptState, SendWindow
from notifier.domain.push.shard_state import ShardState
from notifier.ports.push import Devices

BATCH_DEVICES = 2_000
"""Devices in a window: what a crash may send twice, a third of a second of the fastest provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    devices: Devices
    batch_devices: int = BATCH_DEVICES

    def drafts(self, burst: Burst, state: ShardState, now: datetime) -> Iterator[Draft]:
        """Yield windows left in doubt by a crash, then due retries, then members that are in no window yet.

        Lazy: the devices of a draft are read when it is asked for, so none are read for a batch that never comes.
        """
        numbers = count(state.progress.next_window)
        for window in state.progress.open_windows:
            yield self._in_doubt(burst, state, window, now)
        yield from self._retries(state, numbers, now)
        yield from self._first_alerts(burst, state, numbers, now)

    def _in_doubt(self, burst: Burst, state: ShardState, window: SendWindow, now: datetime) -> Draft:
        people, at = window.alerted & ~state.suppressed, state.log_key
        devices = self.devices.iter_devices(at.platform, at.shard, people) if people.any() else ()
        return in_doubt_draft(state, burst, window, devices, now)

    def _retries(self, state: ShardState, numbers: Iterator[int], now: datetime) -> Iterator[Draft]:
        """Yield drafts of due retries. The window names every due attempt, and so closes those not sent any more."""
        due = state.due_retries(now)
        for start in range(0, len(due), self.batch_devices):
            retries = tuple(due[start : start + self.batch_devices])
            window = SendWindow(number=next(numbers), at=now, retries=retries)
            yield Draft(log_key=state.log_key, window=window, attempts=self._attempts(state, retries, now))

    def _attempts(self, state: ShardState, tries: Iterable[AttemptState], now: datetime) -> Sequence[SendAttempt]:
        """Return the attempts to send, without devices that belong to another member by now."""
        wanted = {attempt_state.device: attempt_state for attempt_state in tries if state.may_retry(attempt_state, now)}
        held = self.devices.by_member({attempt_state.member for attempt_state in wanted.values()}) if wanted else {}
        attempts = list[SendAttempt]()
        for member in sorted(held):
            own = (device for device in held[member] if device.id in wanted and wanted[device.id].member == member)
            attempts.extend(SendAttempt(device=device, state=wanted[device.id]) for device in own)
        return attempts

    def _first_alerts(self, burst: Burst, state: ShardState, numbers: Iterator[int], now: datetime) -> Iterator[Draft]:
        people, at = state.ready, state.log_key
        if not people.any():
            return
        for devices in _by_member(self.devices.iter_devices(at.platform, at.shard, people), self.batch_devices):
            yield first_alert_draft(state, burst, devices, next(numbers), now)


def _by_member(devices: Iterable[Device], max_devices: int) -> Iterator[Sequence[Device]]:
    """Split the devices into runs of about `most`, never between two devices of one member."""
    run: list[Device] = []
    for _, own in groupby(devices, key=attrgetter("member")):
        run.extend(own)
        if len(run) >= max_devices:
            yield run
            run = []
    if run:
        yield run
