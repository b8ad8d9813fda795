"""Scenarios of quiet hours, and one of several days."""

from collections.abc import Iterator
from datetime import timedelta

from tests.support.simulator.population import AUTHORS
from tests.support.simulator.script import ALL, Changed, Frozen, Opened, Retracted, Script, ScriptEntry, Tweeted

ASLEEP = {"kim": "11-13", "roy": "12-14", "nova": "10-15"}
"""Quiet hours by user; it is noon. lee has none, and roy ends his before the last mention."""


def quiet_hours() -> Script:
    entries = [
        *_evening(),
        ScriptEntry(step=700, what=Changed(person="roy", what="quiet:0-0")),
        ScriptEntry(step=1_000, what=Frozen(lasting=timedelta(minutes=20))),
    ]
    return Script(seed=1, steps=1_300, entries=entries, collapse=timedelta(0))


def after_quiet_hours() -> Script:
    """The newest tweet is deleted and users hide bursts of the night, while devices of every platform are alerted."""
    entries = [
        *_evening(),
        ScriptEntry(step=1_000, what=Frozen(lasting=timedelta(minutes=20))),
        ScriptEntry(step=2_100, what=Frozen(lasting=timedelta(minutes=40))),
        ScriptEntry(step=2_180, what=Opened(person="kim", limit=1, mark="hidden")),
        ScriptEntry(step=2_240, what=Retracted(what="delete", author=AUTHORS[1], tweet="e3")),
        ScriptEntry(step=2_700, what=Frozen(lasting=timedelta(hours=1))),
        ScriptEntry(step=2_780, what=Opened(person="roy", limit=1, mark="hidden")),
    ]
    return Script(seed=1, steps=3_000, entries=entries, collapse=timedelta(0), platforms=ALL, workers=2)


def _evening() -> Iterator[ScriptEntry]:
    for person, hours in ASLEEP.items():
        yield ScriptEntry(step=1, what=Changed(person=person, what=f"quiet:{hours}"))
    for n in range(4):
        tweet = Tweeted(id=f"e{n}", author=AUTHORS[n % 2], mentioned=("nova", "orion"))
        yield ScriptEntry(step=100 + 250 * n, what=tweet)


# A scenario of several days: users choose digests, change their volumes, and open inboxes at all hours.

PEOPLE = ("kim", "lee", "max", "pat", "quinn", "roy")
CHANGE_KINDS = ("volume:digest", "overall:digest", "volume:first", "volume:digest", "overall:all", "volume:default")
MARKS = ("", "unread", "hidden", "read", "none")


def several_days() -> Script:
    """Half a day passes at once after each group of mentions, so that each hour lies between two visits."""
    tweets = [
        Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra", "orion")[n % 2 :], protected=n % 9 == 5)
        for n in range(30)
    ]
    entries = [ScriptEntry(step=5 + 600 * (n // 6) + 30 * (n % 6), what=tweet) for n, tweet in enumerate(tweets)]
    entries += [
        ScriptEntry(
            step=10 + 70 * n,
            what=Changed(person=PEOPLE[n % 6], what=CHANGE_KINDS[n // 6 % 6], whom=("nova", "lyra")[n // 3 % 2]),
        )
        for n in range(45)
    ]
    entries += [ScriptEntry(step=590 + 600 * n, what=Frozen(lasting=timedelta(hours=12))) for n in range(5)]
    entries += [
        ScriptEntry(
            step=90 + 25 * n, what=Opened(person=PEOPLE[n % 6], limit=(2, 50)[n % 2], see=n % 7 == 3, mark=MARKS[n % 5])
        )
        for n in range(125)
    ]
    return Script(seed=1, steps=3_300, entries=entries, collapse=timedelta(0), graph=True)
