"""Nights: some sleep while they are mentioned and mentions of those they follow come, and hear of it as one alert."""

from collections.abc import Iterator
from datetime import timedelta

from notifier.testing.simulator.handsets import ALL
from notifier.testing.simulator.scene import AUTHORS
from notifier.testing.simulator.script import Changed, Frozen, Happening, Opened, Script, TakenBack, Tweeted

ASLEEP = {"kim": "11-13", "roy": "12-14", "nova": "10-15"}
"""It is noon, and lee is awake. One gets up before the last mention."""


def nights() -> Script:
    happenings = [
        *_evening(),
        Happening(step=700, what=Changed(person="roy", what="quiet:0-0")),
        Happening(step=1_000, what=Frozen(lasting=timedelta(minutes=20))),
    ]
    return Script(seed=1, steps=1_300, happenings=happenings, collapse=timedelta(0))


def mornings() -> Script:
    """The newest tweet is taken back, and what came at night is looked at, while phones of every provider ring."""
    happenings = [
        *_evening(),
        Happening(step=1_000, what=Frozen(lasting=timedelta(minutes=20))),
        Happening(step=2_100, what=Frozen(lasting=timedelta(minutes=40))),
        Happening(step=2_180, what=Opened(person="kim", limit=1, mark="hidden")),
        Happening(step=2_240, what=TakenBack(what="delete", author=AUTHORS[1], tweet="e3")),
        Happening(step=2_700, what=Frozen(lasting=timedelta(hours=1))),
        Happening(step=2_780, what=Opened(person="roy", limit=1, mark="hidden")),
    ]
    return Script(seed=1, steps=3_000, happenings=happenings, collapse=timedelta(0), platforms=ALL, workers=2)


def _evening() -> Iterator[Happening]:
    for person, hours in ASLEEP.items():
        yield Happening(step=1, what=Changed(person=person, what=f"quiet:{hours}"))
    for n in range(4):
        tweet = Tweeted(id=f"e{n}", author=AUTHORS[n % 2], mentioned=("nova", "orion"))
        yield Happening(step=100 + 250 * n, what=tweet)
