"""A course in which much is taken back, to be struck at every point like the others."""

from datetime import timedelta
from itertools import product

from tests.support.simulator.cast import AUTHORS
from tests.support.simulator.script import Changed, Happening, Opened, Script, Stalled, TakenBack, Tweeted

ASLEEP = timedelta(seconds=0.4)
"""Long enough for a retractor to read the log, and to be done."""


def taking_back() -> Script:
    """A storm of two accounts, and what was said is taken back before it comes, as it comes and after it: tweets are
    deleted and edited, by somebody else, too, which counts nothing; who mentioned is protected, and erased.
    Coordinators sleep now and then, in the middle of a mention of which something is said meanwhile."""
    named = ("nova", "lyra")
    tweets = [
        Happening(step=5 + 45 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=named[: 1 + n % 2]))
        for n in range(24)
    ]
    words: list[TakenBack] = [
        TakenBack(what="delete", author=AUTHORS[n % 3], tweet=f"e{n}")
        if n % 4
        else TakenBack(what="edit", author=AUTHORS[n % 3], tweet=f"e{n}", mentioned=named[: n % 3], sequence=n + 1)
        for n in (16, 0, 20, 2, 5, 3, 8, 12, 9, 14, 19)
    ]
    words.append(TakenBack(what="delete", author="ada", tweet="e1"))
    takes = [Happening(step=150 + 110 * n, what=word) for n, word in enumerate(words)]
    ends = [(550, "protect", "eve"), (900, "protect", "bob"), (1_350, "erase", "eve")]
    takes += [Happening(step=step, what=TakenBack(what=what, author=author)) for step, what, author in ends]
    asleep = [
        Happening(point=(thread, n), what=Stalled(name=thread, lasting=ASLEEP))
        for thread in ("pump-1/celebrity", "pump-1/standard")
        for n in range(11, 120, 17)
    ]
    looks = [Happening(step=55 * n, what=Opened(person=("kim", "max", "nova")[n % 3])) for n in range(1, 30)]
    return Script(seed=1, steps=1_700, happenings=[*tweets, *takes, *asleep, *looks], collapse=timedelta(seconds=0.15))


# A course of blocks: people, the accounts they follow and those who mention these part and come together again.

NAMES = ("kim", "roy", "lee")
PAIRS = [("nova", "kim"), *product(NAMES, ("nova", "ada", "lyra")), ("nova", "roy"), ("ada", "max")]
"""Who blocks, and whom."""
FOR_GOOD = (("bob", "lee"), ("lyra", "roy"))
APART, LASTS, LATE = 130, 300, 40
"""Steps: from a block to the next, until it is taken back, which is some mentions later, and until the same block comes
once more, late."""


def a_quarrel() -> Script:
    """Mentions of two accounts while blocks come and go between any two steps; now and then one comes late."""
    tweets = [Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")[n % 2 :]) for n in range(18)]
    happenings = [Happening(step=5 + 110 * n, what=tweet) for n, tweet in enumerate(tweets)]
    for n, (person, whom) in enumerate(PAIRS):
        words = [("block", 0, 0), ("unblock", LASTS, 0), ("block", LASTS + LATE, 1)]
        happenings += [
            Happening(step=20 + APART * n + after, what=Changed(person=person, what=what, whom=whom, sequence=sequence))
            for what, after, sequence in words[: 2 + n % 2]
        ]
    happenings += [
        Happening(step=700, what=Changed(person=person, what="block", whom=whom)) for person, whom in FOR_GOOD
    ]
    happenings += [Happening(step=60 + 90 * n, what=Opened(person=NAMES[n % 3])) for n in range(22)]
    return Script(seed=1, steps=2_050, happenings=happenings, collapse=timedelta(0), graph=True)
