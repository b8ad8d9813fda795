"""What bounds alerts, as Redis keeps it: a pace in 40 bytes, and 24 for each alert of a person's day."""

from functools import lru_cache
from math import isfinite
from struct import Struct, error

from notifier.codec.timestamps import from_ms, to_ms
from notifier.domain.errors import Poison
from notifier.domain.push.frequency_cap import Cause, History, Rung
from notifier.domain.push.rate_limit import Pace

_PACE = Struct("<ddqqq")
_RUNG = Struct("<q8s8s")


def pack_pace(pace: Pace) -> bytes:
    return _PACE.pack(
        pace.tokens,
        pace.share,
        to_ms(pace.at),
        to_ms(pace.since),
        0 if pace.cut_at is None else to_ms(pace.cut_at),
    )


def unpack_pace(blob: bytes) -> Pace:
    try:
        tokens, share, at, since, cut_at = _PACE.unpack(blob)
        pace = Pace(
            tokens=tokens,
            share=share,
            at=from_ms(at),
            since=from_ms(since),
            cut_at=from_ms(cut_at) if cut_at else None,
        )
    except (error, OverflowError) as cause:
        raise Poison(f"It is no pace: {cause}.") from cause
    if not (isfinite(tokens) and 0 < share <= 1):
        raise Poison(f"It is no pace: {tokens} tokens and a share of {share}.")
    return pace


def pack_history(history: History) -> bytes:
    return b"".join(_RUNG.pack(to_ms(rung.at), rung.cause.burst, rung.cause.tweet) for rung in history)


def unpack_history(blob: bytes) -> History:
    try:
        return [_rung(blob[at : at + _RUNG.size]) for at in range(0, len(blob), _RUNG.size)]
    except (error, OverflowError) as cause:
        raise Poison(f"It is no history of alerts: {cause}.") from cause


@lru_cache(maxsize=4096)
def _rung(packed: bytes) -> Rung:
    """Thousands rang at the same moment for the same burst: reading each anew would cost ten times as much."""
    at, burst, tweet = _RUNG.unpack(packed)
    return Rung(at=from_ms(at), cause=Cause(burst=burst, tweet=tweet))
