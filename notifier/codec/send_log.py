"""Windows of sendings as the stores keep them: what was intended, and what was missed of it once it is known.

Workers of the version before read them, too, and theirs are read here: a place keeps its meaning, and what is new
stands behind, where whoever doesn't know it passes it over. A window that can't be read costs its slice its life.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from notifier.codec.storage import pack, unpack
from notifier.domain.audience.bitmap import Bits, decode, encode, nobody
from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.send_log import Fate, Missed, Olders, Try, Why, Window


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
    held: bool = False
    """A retry of what was never sent; the version before has no other word for it."""


class _Intent(msgspec.Struct, array_like=True):
    at: datetime
    people: bytes
    away: dict[int, bytes]
    """By the number of bursts for which an alert stands, as the version before reads it."""
    silent: dict[Why, bytes]
    again: tuple[_Try, ...]
    tells: tuple[tuple[Olders, bytes], ...] = ()


class _Outcome(msgspec.Struct, array_like=True):
    missed: tuple[_Missed, ...]


def pack_intent(window: Window) -> bytes:
    return pack(
        _Intent(
            at=window.at,
            people=encode(window.people),
            away={many: encode(bits) for many, bits in _by_number(window.away).items()},
            silent={why: encode(bits) for why, bits in window.silent.items()},
            again=tuple(map(_try, window.again)),
            tells=tuple((olders, encode(bits)) for olders, bits in window.away.items()),
        )
    )


def pack_outcome(window: Window) -> bytes:
    """Of one that was sent: nothing missed is an outcome, too."""
    return pack(_Outcome(tuple(map(_packed, window.missed or ()))))


def unpack_window(n: int, intent: bytes, outcome: bytes | None) -> Window:
    """Raises Poison."""
    found = unpack(_Intent, intent)
    return Window(
        n=n,
        at=found.at,
        people=decode(found.people),
        away={olders: decode(blob) for olders, blob in found.tells},
        silent={why: decode(blob) for why, blob in found.silent.items()},
        again=tuple(map(_tried, found.again)),
        missed=None if outcome is None else tuple(map(_missed, unpack(_Outcome, outcome).missed)),
    )


def _by_number(away: Mapping[Olders, Bits]) -> Mapping[int, Bits]:
    found = dict[int, Bits]()
    for olders, bits in away.items():
        many = 1 + len(olders)
        found[many] = found.get(many, nobody()) | bits
    return found


def _packed(one: Missed) -> _Missed:
    held = one.fate is Fate.HELD
    return _Missed(_try(one.tried), Fate.RETRY if held else one.fate, one.at, one.reason, held)


def _try(one: Try) -> _Try:
    return _Try(one.device, one.member, one.first, one.tries, one.away)


def _tried(one: _Try) -> Try:
    return Try(device=one.device, member=one.member, first=one.first, tries=one.tries, away=one.away)


def _missed(one: _Missed) -> Missed:
    fate = Fate.HELD if one.held else one.fate
    return Missed(tried=_tried(one.tried), fate=fate, at=one.at, reason=one.reason)
