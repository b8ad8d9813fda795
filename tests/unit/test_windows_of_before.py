"""Windows of the version before are read, and it reads those of this one: for a while both have workers."""

from datetime import datetime

import msgspec

from notifier.codec import pack, unpack
from notifier.codec.push import pack_intent, pack_outcome, unpack_window
from notifier.domain.audience.bitmap import count, decode, encode, from_offsets
from notifier.domain.ids import Member
from notifier.domain.push.device import DeviceId
from notifier.domain.push.send_log import Fate, Missed, Try, Window
from tests.unit.examples import HOUR, NOON

TRIED = Try(device=DeviceId("d1"), member=Member(7), first=NOON, away=3)


class _Try(msgspec.Struct, array_like=True):
    device: str
    member: int
    first: datetime
    tries: int
    away: int


class _Missed(msgspec.Struct, array_like=True):
    tried: _Try
    fate: str
    at: datetime | None
    reason: str


class _Intent(msgspec.Struct, array_like=True):
    """As it was before an alert named the older bursts of which it tells."""

    at: datetime
    people: bytes
    away: dict[int, bytes]
    silent: dict[str, bytes]
    again: tuple[_Try, ...]


class _Outcome(msgspec.Struct, array_like=True):
    missed: tuple[_Missed, ...]


def test_a_window_of_before_is_read_and_names_no_older_ones() -> None:
    people = encode(from_offsets([7, 9]))
    blob = pack(_Intent(NOON, people, {3: encode(from_offsets([7]))}, {"hourly": encode(from_offsets([9]))}, ()))
    outcome = pack(_Outcome((_Missed(_Try("d1", 7, NOON, 0, 3), "retry", NOON + HOUR, "busy"),)))
    found = unpack_window(2, blob, outcome)
    assert (found.n, count(found.people), count(found.told), dict(found.away)) == (2, 2, 1, {})
    assert found.missed == (Missed(tried=TRIED, fate=Fate.RETRY, at=NOON + HOUR, reason="busy"),)


def test_the_version_before_reads_whom_a_summary_went_to_and_takes_what_was_held_for_a_retry() -> None:
    groups = {(1, 2): from_offsets([7]), (2, 4): from_offsets([9]), (4,): from_offsets([11])}
    held = Missed(tried=TRIED, fate=Fate.HELD, at=NOON + HOUR, reason="left alone")
    window = Window(n=0, at=NOON, people=from_offsets([7, 9, 11]), away=groups, missed=(held,))
    found = unpack(_Intent, pack_intent(window))
    assert {many: count(decode(bits)) for many, bits in found.away.items()} == {3: 2, 2: 1}
    assert [one.fate for one in unpack(_Outcome, pack_outcome(window)).missed] == ["retry"]
    again = unpack_window(0, pack_intent(window), pack_outcome(window))
    assert (set(again.away), again.missed) == (set(groups), (held,))
