"""Settings of the dead letters: how many records of a lane may die before the lane stops."""

from dataclasses import dataclass

from notifier.config.field import setting
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit

MOST_DEATHS = 1_000
"""The store keeps each death of the window, and rewrites them with each death: 1,000 are about 40 kB."""
LONGEST_WINDOW = 1_000_000


def _deaths(default: int, means: str) -> int:
    deaths: int = setting(
        default,
        must=f"a whole number from 0 to {MOST_DEATHS}",
        means=means,
        holds=lambda count: 0 <= count <= MOST_DEATHS,
    )
    return deaths


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    in_a_row: int = _deaths(
        DeadLetterLimit().in_a_row,
        "records or slices of one lane that may become dead letters one after another; the lane stops before the next"
        " one ([what to do](operations.md#a-lane-is-stopped)); 0: no limit",
    )
    in_window: int = _deaths(
        DeadLetterLimit().in_window,
        "the same among the last `NOTIFIER_DEAD_LETTERS_WINDOW` of the lane, in any order; 100 of 10,000 are 1 %; 0: no"
        " limit",
    )
    window: int = setting(
        DeadLetterLimit().window,
        must=f"a whole number from 1 to {LONGEST_WINDOW}",
        means="how many records or slices of a lane are looked back at",
        holds=lambda records: 1 <= records <= LONGEST_WINDOW,
    )

    @property
    def limit(self) -> DeadLetterLimit:
        return DeadLetterLimit(in_a_row=self.in_a_row, in_window=self.in_window, window=self.window)
