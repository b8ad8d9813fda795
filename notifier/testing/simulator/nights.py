"""Nights: some sleep while they are mentioned and mentions of those they follow come, and hear of it as one alert."""

from datetime import timedelta

from notifier.testing.simulator.scene import AUTHORS
from notifier.testing.simulator.script import Changed, Frozen, Happening, Script, Tweeted

ASLEEP = {"kim": "11-13", "roy": "12-14", "nova": "10-15"}
"""It is noon, and lee is awake. One gets up before the last mention."""


def nights() -> Script:
    happenings = [
        Happening(step=1, what=Changed(person=person, what=f"quiet:{hours}")) for person, hours in ASLEEP.items()
    ]
    happenings += [
        Happening(step=100 + 250 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 2], mentioned=("nova", "orion")))
        for n in range(4)
    ]
    happenings += [
        Happening(step=700, what=Changed(person="roy", what="quiet:0-0")),
        Happening(step=1_000, what=Frozen(lasting=timedelta(minutes=20))),
    ]
    return Script(seed=1, steps=1_300, happenings=happenings, collapse=timedelta(0))
