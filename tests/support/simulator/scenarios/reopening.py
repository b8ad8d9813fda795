"""A course in which inboxes are opened all the time, so that caches are warm when something changes or breaks."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random

from tests.support.simulator.cast import AUTHORS
from tests.support.simulator.script import (
    Changed,
    Failing,
    Happening,
    How,
    Killed,
    Opened,
    Outage,
    Part,
    Script,
    Stalled,
    TakenBack,
    Tweeted,
    Wiped,
)

USERS = ("kim", "lee", "roy", "max")
SUBJECTS = ("nova", "lyra")
CHANGES = ("mute", "unmute", "follow", "unfollow", "follow", "volume:first", "volume:all", "block", "unblock")
MARKS = ("", "", "read", "unread", "hidden", "none")
STEPS = 2_000
STALLS = timedelta(seconds=0.7)
"""Longer than other threads need for a change, shorter than a store takes to give up."""


def reopening(seed: int = 1) -> Script:
    """Users open, see and mark while mentions, retractions and changes of their own facts go on, and parts fail."""
    dice = Random(f"reopening {seed}")
    happenings = [*_openings(dice), *_changes(dice), *_faults(dice)]
    return Script(seed=seed, steps=STEPS, happenings=happenings, collapse=timedelta(seconds=0.3), graph=True, pumps=2)


def _openings(dice: Random) -> Iterator[Happening]:
    """Each user again and again, through both processes, with seldom more than half a second in between."""
    for step in range(20, STEPS, 11):
        what = Opened(person=dice.choice(USERS), see=dice.random() < 0.2, mark=dice.choice(MARKS))
        yield Happening(step=step, what=what)


def _changes(dice: Random) -> Iterator[Happening]:
    for n, step in enumerate(range(5, STEPS - 200, 40)):
        named = SUBJECTS[: dice.randint(1, 2)]
        yield Happening(step=step, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=named))
        if n > 3 and dice.random() < 0.4:
            gone = dice.randrange(n)
            taken = TakenBack(what="delete", author=AUTHORS[gone % 3], tweet=f"e{gone}")
            yield Happening(step=step + dice.randint(1, 39), what=taken)
    for step in range(60, STEPS - 200, 23):
        what = dice.choice(CHANGES)
        whom = dice.choice((*SUBJECTS, "ada", "bob")) if what.endswith("block") else dice.choice(SUBJECTS)
        yield Happening(step=step, what=Changed(person=dice.choice(USERS), what=what, whom=whom))


def _faults(dice: Random) -> Iterator[Happening]:
    """Redis is emptied and goes away; writers die, fail and stall between any two calls, and readers stall in them."""
    for step in range(150, STEPS - 200, 130):
        thread = dice.choice(("pump-1/indexer", "pump-2/indexer", "pump-1/celebrity", "pump-1/retractor", "api/graph"))
        process = thread.partition("/")[0]
        yield Happening(
            step=step + dice.randint(0, 100),
            what=dice.choice(
                (
                    Wiped(),
                    Outage(part=Part.CACHE, lasting=timedelta(seconds=dice.choice((0.2, 1, 3)))),
                    Killed(process=process, back_after=timedelta(seconds=1)),
                    Failing(thread=thread, how=dice.choice([*How])),
                    Stalled(name=thread, lasting=STALLS),
                    Stalled(name=f"people/{dice.choice(USERS)}", lasting=STALLS),
                    Stalled(name=f"people/{dice.choice(USERS)}", lasting=STALLS),
                )
            ),
        )
