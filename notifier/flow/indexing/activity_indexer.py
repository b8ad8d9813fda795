"""The attendant: who was seen elsewhere counts as who opened the tab here, from the next roll-up on."""

from collections.abc import Sequence
from dataclasses import dataclass

from notifier.codec import unpack
from notifier.domain.audience.activity import Sighting, hour_of
from notifier.ports.audience import ActiveHours
from notifier.ports.clock import Clock
from notifier.ports.directory import Directory
from notifier.ports.event_log import Logged


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendant:
    directory: Directory
    hours: ActiveHours
    clock: Clock

    def __call__(self, records: Sequence[Logged]) -> None:
        """Everybody's bit is set when it returns; setting it again, after a crash or by another reader, is setting it.

        Raises CacheUnavailable, and then the log keeps what was said until the hours can be noted.
        """
        now = self.clock.now()
        told = [unpack(Sighting, logged.record.value) for logged in records]
        # A stranger is given a number: whom a platform sees before anybody follows is around when somebody does.
        numbers = self.directory.number({one.user for one in told if one.counts(now)})
        if numbers:
            self.hours.touch(set(numbers.values()), hour_of(now))
