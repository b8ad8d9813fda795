"""Push limits in Redis: provider rates, frequency caps, inbox latency reports, open circuits."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from notifier.adapters.redis.calls import ScriptCall, ask
from notifier.adapters.redis.compare_and_swap import Cell, SwappedKeys
from notifier.adapters.redis.connect import RedisClient
from notifier.adapters.redis.keys import CHECKSUM, KeyKind, LuaScript
from notifier.codec import pack, unpack
from notifier.codec.push import pack_history, pack_pace, unpack_history, unpack_pace
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, block_of
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.push.frequency_cap import KEPT, CapLimits, CountedAlert, History, Ruling, judged, spent
from notifier.domain.push.rate_limit import TERMS, Pace, Terms, drawn, told

_MILLISECOND = timedelta(milliseconds=1)


class RedisPaces:
    def __init__(self, client: RedisClient, terms: Mapping[Platform, Terms] = TERMS) -> None:
        self._terms = terms
        # A rate that was idle for this long restarts from its floor anyway.
        self._cells = SwappedKeys(client, max(limit.idle for limit in terms.values()))

    def draw(self, platform: Platform, wanted: int, *, urgent: bool, ease: float, now: datetime) -> int:
        def step(_: Cell, held: bytes) -> tuple[bytes, int]:
            after, granted = drawn(_pace(held), self._terms[platform], now, wanted, urgent=urgent, ease=ease)
            return pack_pace(after), granted

        return self._cells.change([_of(platform)], step)[_of(platform)]

    def tell(self, platform: Platform, *, refused: int, slow: bool, now: datetime) -> None:
        def step(_: Cell, held: bytes) -> tuple[bytes, None]:
            return pack_pace(told(_pace(held), self._terms[platform], now, refused=refused, slow=slow)), None

        if refused or slow:
            self._cells.change([_of(platform)], step)


class RedisCaps:
    """Alert histories, one hash per block of users.

    A hash expires about a day (KEPT) after the last alert to any user of the block. Until then it also keeps older
    histories of the other users. Each alert takes 24 bytes.
    """

    def __init__(self, client: RedisClient, caps: CapLimits | None = None) -> None:
        self._caps = caps or CapLimits()
        self._cells = SwappedKeys(client, KEPT)

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        cause = CountedAlert.of(burst, tweet)

        def step(_: Cell, held: bytes) -> tuple[bytes | None, Ruling]:
            history = _history(held)
            ruling = judged(history, cause, now, self._caps)
            if ruling is not Ruling.NEW:
                return None, ruling
            return pack_history(spent(history, cause, now, self._caps)), ruling

        cells = {member: _day(member) for member in people}
        rulings = self._cells.change(cells.values(), step)
        return {member: rulings[cell] for member, cell in cells.items()}


class RedisTabReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._slowest = LuaScript.named(CHECKSUM, "slowest")

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self._said(process, p99 // _MILLISECOND, lasting // _MILLISECOND)

    def worst(self) -> timedelta | None:
        slowest = self._said("", 0, 0)
        return None if slowest is None else slowest * _MILLISECOND

    def _said(self, *arguments: str | int) -> int | None:
        slowest: int | None
        [slowest] = ask(self._client, [ScriptCall(self._slowest, KeyKind.TABS.key(), arguments)])
        return slowest


class RedisLineReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._words = LuaScript.named(CHECKSUM, "words")

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        self._said(line, pack(left), lasting // _MILLISECOND)

    def told(self) -> Mapping[str, LeftAlone]:
        reports = self._said("", "", 0)
        read = ((line.decode(), _left_alone(packed)) for line, packed in zip(reports[::2], reports[1::2], strict=True))
        return {line: left for line, left in read if left is not None}

    def _said(self, *arguments: str | bytes | int) -> Sequence[bytes]:
        reports: Sequence[bytes]
        [reports] = ask(self._client, [ScriptCall(self._words, KeyKind.LINES.key(), arguments)])
        return reports


def _left_alone(word: bytes) -> LeftAlone | None:
    try:
        return unpack(LeftAlone, word)
    except Poison:  # written by another version: treat it as absent
        return None


def _pace(held: bytes) -> Pace | None:
    try:
        return unpack_pace(held) if held else None
    except Poison:  # as above
        return None


def _history(held: bytes) -> History:
    try:
        return unpack_history(held)
    except Poison:  # as above
        return ()


def _of(platform: Platform) -> Cell:
    return Cell(KeyKind.PACE.key(platform), "pace")


def _day(member: Member) -> Cell:
    return Cell(KeyKind.CAPS.key(block_of(member)), str(member % BLOCK_MEMBERS))
