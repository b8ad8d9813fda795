"""Ease: what the tab leaves of the pace of alerts, because each of them has somebody open it."""

from datetime import timedelta

TAB = timedelta(milliseconds=50)
"""A page at the 99th percentile: a few times what one takes at rest. Above it alerts begin to give way."""
STUCK = 4 * TAB
LEAST = 0.05
"""Alerts never stop for it: those who look anyway would keep all others silent."""


def ease(tab: timedelta | None, pressure: float) -> float:
    """From 1, where all is well, down to the least: by the slowest process's pages, None where nobody says, or by the
    monitor's pressure from 0 to 1, whichever leaves less."""
    waiting = 0.0 if tab is None else (tab - TAB) / (STUCK - TAB)
    return LEAST + (1 - LEAST) * (1 - max(0.0, min(1.0, max(waiting, pressure))))
