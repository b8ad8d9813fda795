"""What the windows of one sending note of a person's devices: those that took their alert at once are in none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.send_log import WORTH, Fate, Missed, Try, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Of one device, the latest."""

    device: DeviceId
    fate: Fate | None = None
    """None: its last try was not missed, or is going on."""
    going: bool = False
    tries: int
    """That came to nothing."""
    until: datetime | None = None
    """It is sent to again, and no sooner."""
    worth_until: datetime | None = None
    """And no later; None: for as long as its slice is."""
    reason: str | None = None

    @property
    def unsent(self) -> bool:
        """So far: its line was shut when its turn came."""
        return self.fate is Fate.HELD and not self.tries

    @property
    def took(self) -> bool:
        """At last."""
        return self.fate is None and not self.going


def noted(windows: Sequence[Window], member: Member) -> Sequence[Noted]:
    """`windows` in their order."""
    found: dict[DeviceId, Noted] = {}
    for window in windows:
        for tried in window.again:
            if tried.member == member:
                found[tried.device] = Noted(device=tried.device, going=window.missed is None, tries=tried.tries)
        for missed in window.missed or ():
            if missed.tried.member == member:
                found[missed.tried.device] = _missed(missed)
    return list(found.values())


def over(devices: Sequence[Noted]) -> Sequence[Noted]:
    """The same, where nothing is sent again."""
    return [replace(one, until=None) for one in devices]


def named(window: Window, member: Member) -> Iterator[Try]:
    """The person's devices of which it says something."""
    yield from (tried for tried in window.again if tried.member == member)
    yield from (missed.tried for missed in window.missed or () if missed.tried.member == member)


def _missed(missed: Missed) -> Noted:
    tried = missed.tried
    return Noted(
        device=tried.device,
        fate=missed.fate,
        tries=tried.tries,
        until=missed.at,
        worth_until=tried.first + WORTH if tried.tries else None,
        reason=missed.reason,
    )
