"""A course of some days: people want digests, change their minds, and look at all hours."""

from datetime import timedelta

from notifier.testing.simulator.scene import AUTHORS
from notifier.testing.simulator.script import Changed, Frozen, Happening, Opened, Script, Tweeted

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
