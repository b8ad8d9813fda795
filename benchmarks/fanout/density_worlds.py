"""Densities: the share of a range that a burst reaches, and worlds with it."""

from dataclasses import dataclass

from notifier.devkit.fixture.world import ACTIVE_24H, Members, World


@dataclass(frozen=True, kw_only=True)
class Lively(World):
    """The fixture's world with another number of users who are active within 24 hours."""

    active: int
    """Active users of 1,000."""

    def idleness(self, m: Members) -> Members:
        return super().idleness(m) * ACTIVE_24H // self.active


def everybody_follows(universe: int, percent: float) -> Lively:
    """Return a world in which P1 of the first celebrity's bursts has this share of every range."""
    return Lively(universe=universe, followers=universe, celebrities=1, seed=1, active=round(10 * percent))


def shown(percent: float) -> str:
    """Return a density as the names of figures show it."""
    return f"{percent:g}%"
