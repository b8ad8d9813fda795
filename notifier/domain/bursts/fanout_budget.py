"""The budget of fan-outs: a token bucket that lengthens the collapse window of a subject mentioned all day.

Restricted bursts can't be collapsed. They have a bucket of their own, the purse; beyond it they are served by pull.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from notifier.domain.ids import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    tokens: float
    at: datetime

    @classmethod
    def full(cls, policy: Policy, now: datetime) -> Self:
        return cls(tokens=float(policy.budget_capacity), at=now)

    def refilled(self, policy: Policy, now: datetime) -> Self:
        if now <= self.at:
            return self
        earned = (now - self.at) / policy.budget_refill
        return replace(self, tokens=min(float(policy.budget_capacity), self.tokens + earned), at=now)

    def spent(self) -> Self:
        return replace(self, tokens=max(0.0, self.tokens - 1.0))


def window_over(budget: Budget | None, *, opened_at: datetime, collapse: timedelta, now: datetime) -> bool:
    """True when the next mention opens a new burst: the least window has passed and a fan-out can be afforded."""
    if collapse == timedelta(0):
        return True
    if now < opened_at + collapse:
        return False
    return affords(budget)


def affords(budget: Budget | None) -> bool:
    """Another fan-out; a subject without a budget is bounded by its window alone."""
    return budget is None or budget.tokens >= 1.0
