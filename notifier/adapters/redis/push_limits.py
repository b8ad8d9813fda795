"""What bounds alerts, in Redis: paces, caps, what the tab's processes say of themselves, and who is left alone."""

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
        # Idle for so long each begins anew anyway.
        self._cells = SwappedKeys(client, max(each.idle for each in terms.values()))

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
    """A block's people are in one hash, which is forgotten a day after the last of them was alerted; until then it
    keeps the last days of the others, too: 24 bytes for each alert."""

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
        found = self._cells.change(cells.values(), step)
        return {member: found[cell] for member, cell in cells.items()}


class RedisTabReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._slowest = LuaScript.named(CHECKSUM, "slowest")

    def tell(self, process: str, p99: timedelta, lasting: timedelta) -> None:
        self._said(process, p99 // _MILLISECOND, lasting // _MILLISECOND)

    def worst(self) -> timedelta | None:
        found = self._said("", 0, 0)
        return None if found is None else found * _MILLISECOND

    def _said(self, *arguments: str | int) -> int | None:
        found: int | None
        [found] = ask(self._client, [ScriptCall(self._slowest, KeyKind.TABS.key(), arguments)])
        return found


class RedisLineReport:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._words = LuaScript.named(CHECKSUM, "words")

    def tell(self, line: str, left: LeftAlone, lasting: timedelta) -> None:
        self._said(line, pack(left), lasting // _MILLISECOND)

    def told(self) -> Mapping[str, LeftAlone]:
        found = self._said("", "", 0)
        read = ((line.decode(), _left_alone(word)) for line, word in zip(found[::2], found[1::2], strict=True))
        return {line: left for line, left in read if left is not None}

    def _said(self, *arguments: str | bytes | int) -> Sequence[bytes]:
        found: Sequence[bytes]
        [found] = ask(self._client, [ScriptCall(self._words, KeyKind.LINES.key(), arguments)])
        return found


def _left_alone(word: bytes) -> LeftAlone | None:
    try:
        return unpack(LeftAlone, word)
    except Poison:  # another version's; as if it had never been
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
