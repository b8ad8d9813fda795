"""A course of blocks: people, the accounts they follow and those who mention these part and come together again."""

from datetime import timedelta
from itertools import product

from notifier.testing.simulator.scene import AUTHORS
from notifier.testing.simulator.script import Changed, Happening, Opened, Script, Tweeted

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
