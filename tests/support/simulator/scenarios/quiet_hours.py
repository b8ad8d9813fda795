"""Nights: some sleep while they are mentioned and mentions of those they follow come, and hear of it as one alert."""

from collections.abc import Iterator
from datetime import timedelta

from tests.support.simulator.cast import AUTHORS
from tests.support.simulator.script import ALL, Changed, Frozen, Happening, Opened, Script, TakenBack, Tweeted

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


# A course of some days: people want digests, change their minds, and look at all hours.

PEOPLE = ("kim", "lee", "max", "pat", "quinn", "roy")
WORDS = ("volume:digest", "overall:digest", "volume:first", "volume:digest", "overall:all", "volume:default")
MARKS = ("", "unread", "hidden", "read", "none")


def some_days() -> Script:
    """Half a day passes at once, when the mentions before it stand: each hour lies between two looks."""
    tweets = [
        Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra", "orion")[n % 2 :], protected=n % 9 == 5)
        for n in range(30)
    ]
    happenings = [Happening(step=5 + 600 * (n // 6) + 30 * (n % 6), what=tweet) for n, tweet in enumerate(tweets)]
    happenings += [
        Happening(
            step=10 + 70 * n,
            what=Changed(person=PEOPLE[n % 6], what=WORDS[n // 6 % 6], whom=("nova", "lyra")[n // 3 % 2]),
        )
        for n in range(45)
    ]
    happenings += [Happening(step=590 + 600 * n, what=Frozen(lasting=timedelta(hours=12))) for n in range(5)]
    happenings += [
        Happening(
            step=90 + 25 * n, what=Opened(person=PEOPLE[n % 6], limit=(2, 50)[n % 2], see=n % 7 == 3, mark=MARKS[n % 5])
        )
        for n in range(125)
    ]
    return Script(seed=1, steps=3_300, happenings=happenings, collapse=timedelta(0), graph=True)
