"""Scenarios with many retractions and many user blocks."""

from datetime import timedelta
from itertools import product

from tests.support.simulator.population import AUTHORS
from tests.support.simulator.script import Changed, Opened, Retracted, Script, ScriptEntry, Stalled, Tweeted

ASLEEP = timedelta(seconds=0.4)
"""Long enough for the retractor to read the log and finish."""


def many_retractions() -> Script:
    """A storm of two accounts while tweets are retracted before, while and after they arrive.

    Tweets are deleted and edited, also by other users, which has no effect; authors are protected and erased.
    Coordinators stall in the middle of mentions that are retracted meanwhile.
    """
    named = ("nova", "lyra")
    tweets = [
        ScriptEntry(step=5 + 45 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=named[: 1 + n % 2]))
        for n in range(24)
    ]
    retractions: list[Retracted] = [
        Retracted(what="delete", author=AUTHORS[n % 3], tweet=f"e{n}")
        if n % 4
        else Retracted(what="edit", author=AUTHORS[n % 3], tweet=f"e{n}", mentioned=named[: n % 3], sequence=n + 1)
        for n in (16, 0, 20, 2, 5, 3, 8, 12, 9, 14, 19)
    ]
    retractions.append(Retracted(what="delete", author="ada", tweet="e1"))
    retraction_entries = [ScriptEntry(step=150 + 110 * n, what=retraction) for n, retraction in enumerate(retractions)]
    author_retractions = [(550, "protect", "eve"), (900, "protect", "bob"), (1_350, "erase", "eve")]
    retraction_entries += [
        ScriptEntry(step=step, what=Retracted(what=kind, author=author)) for step, kind, author in author_retractions
    ]
    stalls = [
        ScriptEntry(point=(thread, n), what=Stalled(name=thread, lasting=ASLEEP))
        for thread in ("pump-1/celebrity", "pump-1/standard")
        for n in range(11, 120, 17)
    ]
    visits = [ScriptEntry(step=55 * n, what=Opened(person=("kim", "max", "nova")[n % 3])) for n in range(1, 30)]
    return Script(
        seed=1,
        steps=1_700,
        entries=[*tweets, *retraction_entries, *stalls, *visits],
        collapse=timedelta(seconds=0.15),
    )


# User blocks: users, accounts they follow and authors block each other and unblock again.

NAMES = ("kim", "roy", "lee")
PAIRS = [("nova", "kim"), *product(NAMES, ("nova", "ada", "lyra")), ("nova", "roy"), ("ada", "max")]
"""Blocker and blocked user."""
FOR_GOOD = (("bob", "lee"), ("lyra", "roy"))
APART, LASTS, LATE = 130, 300, 40
"""Steps between two blocks, until the unblock (some mentions later), and until the late repetition of the block."""


def user_blocks() -> Script:
    """Mentions of two accounts while blocks come and go between any two steps; some blocks come late."""
    tweets = [Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")[n % 2 :]) for n in range(18)]
    entries = [ScriptEntry(step=5 + 110 * n, what=tweet) for n, tweet in enumerate(tweets)]
    for n, (person, account) in enumerate(PAIRS):
        changes = [("block", 0, 0), ("unblock", LASTS, 0), ("block", LASTS + LATE, 1)]
        entries += [
            ScriptEntry(
                step=20 + APART * n + after, what=Changed(person=person, what=kind, whom=account, sequence=sequence)
            )
            for kind, after, sequence in changes[: 2 + n % 2]
        ]
    entries += [
        ScriptEntry(step=700, what=Changed(person=person, what="block", whom=account)) for person, account in FOR_GOOD
    ]
    entries += [ScriptEntry(step=60 + 90 * n, what=Opened(person=NAMES[n % 3])) for n in range(22)]
    return Script(seed=1, steps=2_050, entries=entries, collapse=timedelta(0), graph=True)
