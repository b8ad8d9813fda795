"""Windows of sendings as the stores keep them: what was intended, and what was missed of it once it is known."""

from datetime import datetime

import msgspec

from notifier.codec.stored import pack, unpack
from notifier.domain.bits import decode, encode
from notifier.domain.device import DeviceId
from notifier.domain.sending import Fate, Missed, Olders, Try, Why, Window
from notifier.domain.subject import Member


class _Try(msgspec.Struct, array_like=True):
    device: DeviceId
    member: Member
    first: datetime
    tries: int
    away: int


class _Missed(msgspec.Struct, array_like=True):
    tried: _Try
    fate: Fate
    at: datetime | None
    reason: str


class _Intent(msgspec.Struct, array_like=True):
    at: datetime
    people: bytes
    away: tuple[tuple[Olders, bytes], ...]
    silent: dict[Why, bytes]
    again: tuple[_Try, ...]


class _Outcome(msgspec.Struct, array_like=True):
    missed: tuple[_Missed, ...]


def pack_intent(window: Window) -> bytes:
    return pack(
        _Intent(
            at=window.at,
            people=encode(window.people),
            away=tuple((olders, encode(bits)) for olders, bits in window.away.items()),
            silent={why: encode(bits) for why, bits in window.silent.items()},
            again=tuple(map(_try, window.again)),
        )
    )


def pack_outcome(window: Window) -> bytes:
    """Of one that was sent: nothing missed is an outcome, too."""
    return pack(_Outcome(tuple(_Missed(_try(one.tried), one.fate, one.at, one.reason) for one in window.missed or ())))


def unpack_window(n: int, intent: bytes, outcome: bytes | None) -> Window:
    """Raises Poison."""
    found = unpack(_Intent, intent)
    return Window(
        n=n,
        at=found.at,
        people=decode(found.people),
        away={olders: decode(blob) for olders, blob in found.away},
        silent={why: decode(blob) for why, blob in found.silent.items()},
        again=tuple(map(_tried, found.again)),
        missed=None if outcome is None else tuple(map(_missed, unpack(_Outcome, outcome).missed)),
    )


def _try(one: Try) -> _Try:
    return _Try(one.device, one.member, one.first, one.tries, one.away)


def _tried(one: _Try) -> Try:
    return Try(device=one.device, member=one.member, first=one.first, tries=one.tries, away=one.away)


def _missed(one: _Missed) -> Missed:
    return Missed(tried=_tried(one.tried), fate=one.fate, at=one.at, reason=one.reason)
