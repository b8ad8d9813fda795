"""A course in which much is taken back, to be struck at every point like the others."""

from datetime import timedelta

from notifier.testing.simulator.scene import AUTHORS
from notifier.testing.simulator.script import Happening, Opened, Script, TakenBack, Tweeted


def taking_back() -> Script:
    """A storm of two accounts, and what was said is taken back before it comes, as it comes and after it: tweets are
    deleted and edited, by somebody else, too, which counts nothing; who mentioned is protected, and erased."""
    named = ("nova", "lyra")
    tweets = [
        Happening(step=5 + 45 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=named[: 1 + n % 2]))
        for n in range(24)
    ]
    words: list[TakenBack] = [
        TakenBack(what="delete", author=AUTHORS[n % 3], tweet=f"e{n}")
        if n % 4
        else TakenBack(what="edit", author=AUTHORS[n % 3], tweet=f"e{n}", mentioned=named[: n % 3], sequence=n + 1)
        for n in (0, 2, 3, 5, 8, 9, 12, 14, 16, 19, 20)
    ]
    words.append(TakenBack(what="delete", author="ada", tweet="e1"))
    takes = [Happening(step=3 + 47 * n, what=word) for n, word in enumerate(words)]
    ends = [(400, "protect", "eve"), (700, "protect", "bob"), (1_050, "erase", "eve")]
    takes += [Happening(step=step, what=TakenBack(what=what, author=author)) for step, what, author in ends]
    looks = [Happening(step=55 * n, what=Opened(person=("kim", "max", "nova")[n % 3])) for n in range(1, 22)]
    return Script(seed=1, steps=1_200, happenings=[*tweets, *takes, *looks], collapse=timedelta(seconds=0.15))
