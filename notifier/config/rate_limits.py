"""The settings of the limits: how much one person and one service key may ask for."""

from dataclasses import dataclass

from notifier.config.field import setting

MOST = 1_000_000_000
"""Beyond it nobody means a number."""


def _count(default: int, means: str) -> int:
    found: int = setting(
        default, must="a whole number from 0 to 1000000000", means=means, holds=lambda most: 0 <= most <= MOST
    )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    reads: int = _count(1_500, "of one person in 15 minutes, a stream that is opened among them; 0: no limit")
    writes: int = _count(300, "of one person in 3 hours: marks, what was seen, preferences; 0: no limit")
    requests: int = _count(0, "with one service key in a minute, whatever they are; 0: no limit")
