"""A scenario with warm inbox caches while something changes or breaks."""

from collections.abc import Iterator
from datetime import timedelta
from random import Random

from tests.support.simulator.population import AUTHORS
from tests.support.simulator.script import (
    Changed,
    Failing,
    FailureMode,
    Killed,
    Opened,
    Outage,
    Part,
    Retracted,
    Script,
    ScriptEntry,
    Stalled,
    Tweeted,
    Wiped,
)

USERS = ("kim", "lee", "roy", "max")
SUBJECTS = ("nova", "lyra")
CHANGES = ("mute", "unmute", "follow", "unfollow", "follow", "volume:first", "volume:all", "block", "unblock")
MARKS = ("", "", "read", "unread", "hidden", "none")
STEPS = 2_000
STALLS = timedelta(seconds=0.7)
"""Longer than other threads need for a change, shorter than the timeout of the store."""


def reopening(seed: int = 1) -> Script:
    """Users open, see and mark while mentions, retractions and changes of their own facts go on, and parts fail."""
    random = Random(f"reopening {seed}")
    entries = [*_openings(random), *_changes(random), *_faults(random)]
    return Script(seed=seed, steps=STEPS, entries=entries, collapse=timedelta(seconds=0.3), graph=True, pumps=2)


def _openings(random: Random) -> Iterator[ScriptEntry]:
    """Open each user's inbox again and again through both processes, mostly less than half a second apart."""
    for step in range(20, STEPS, 11):
        visit = Opened(person=random.choice(USERS), see=random.random() < 0.2, mark=random.choice(MARKS))
        yield ScriptEntry(step=step, what=visit)


def _changes(random: Random) -> Iterator[ScriptEntry]:
    for n, step in enumerate(range(5, STEPS - 200, 40)):
        named = SUBJECTS[: random.randint(1, 2)]
        yield ScriptEntry(step=step, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=named))
        if n > 3 and random.random() < 0.4:
            retracted = random.randrange(n)
            retraction = Retracted(what="delete", author=AUTHORS[retracted % 3], tweet=f"e{retracted}")
            yield ScriptEntry(step=step + random.randint(1, 39), what=retraction)
    for step in range(60, STEPS - 200, 23):
        kind = random.choice(CHANGES)
        account = random.choice((*SUBJECTS, "ada", "bob")) if kind.endswith("block") else random.choice(SUBJECTS)
        yield ScriptEntry(step=step, what=Changed(person=random.choice(USERS), what=kind, whom=account))


def _faults(random: Random) -> Iterator[ScriptEntry]:
    """Redis is wiped or unavailable; writers die, fail and stall between any two calls, and readers stall in them."""
    for step in range(150, STEPS - 200, 130):
        thread = random.choice(
            ("pump-1/graph_indexer", "pump-2/graph_indexer", "pump-1/celebrity", "pump-1/retractor", "api/graph")
        )
        process = thread.partition("/")[0]
        yield ScriptEntry(
            step=step + random.randint(0, 100),
            what=random.choice(
                (
                    Wiped(),
                    Outage(part=Part.CACHE, lasting=timedelta(seconds=random.choice((0.2, 1, 3)))),
                    Killed(process=process, back_after=timedelta(seconds=1)),
                    Failing(thread=thread, how=random.choice([*FailureMode])),
                    Stalled(name=thread, lasting=STALLS),
                    Stalled(name=f"people/{random.choice(USERS)}", lasting=STALLS),
                    Stalled(name=f"people/{random.choice(USERS)}", lasting=STALLS),
                )
            ),
        )
