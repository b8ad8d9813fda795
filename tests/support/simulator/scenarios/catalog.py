"""Courses of events to be struck at every point: one thread dies, fails or sleeps before or behind each port call."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product

from tests.support.simulator.cast import AUTHORS
from tests.support.simulator.run import Trial, trial
from tests.support.simulator.scenarios.devices import dialling, redialling
from tests.support.simulator.scenarios.moderation import a_hold
from tests.support.simulator.scenarios.quiet_hours import mornings, nights, some_days
from tests.support.simulator.scenarios.reopening import reopening
from tests.support.simulator.scenarios.retractions import a_quarrel, taking_back
from tests.support.simulator.script import (
    BEHIND,
    Changed,
    Failing,
    Fault,
    Frozen,
    Happening,
    How,
    Killed,
    Opened,
    Resized,
    Script,
    Stalled,
    Throttled,
    Tweeted,
    Wiped,
)

BACK_AFTER = timedelta(seconds=1)
SEALED = 14
"""The point of a worker's thread at which it has sealed its first shards and written nothing."""
SLEEPS = timedelta(seconds=40)
"""Longer than any claim or lease."""
PAST_A_LEASE = timedelta(seconds=9)
"""Of a partition."""

IDLE = {
    *("consumer.poll", "queue.take", "queue.depth", "leases.hold", "ledger.open", "sleepers.wake", "throttles.since"),
    *("pressure.level", "report.tell"),
    *("holds.waiting", "holds.count"),
    *("pressure.raise_to", "pull.generation", "heads.unpublished", "inbox.sweep"),
    *("epochs.begin", "directory.end", "active_hours.read", "active_hours.last_rolled_up", "active_hours.rolled_up"),
}
"""What a thread calls while it has nothing to do."""
IDLE_AFTER = 16
"""So many idle calls in a row are a rest, and one moment of it is like the other."""


def one_mention() -> Script:
    return _course(Tweeted(id="e1", author="ada", mentioned=("nova",)))


def a_join() -> Script:
    """The second mention falls into the window of the first."""
    first, second = (Tweeted(id=f"e{n}", author=author, mentioned=("lyra",)) for n, author in ((1, "ada"), (2, "bob")))
    return _course(first, second, apart=300)


def a_storm() -> Script:
    """Twenty mentions of two subjects, some of them by a protected author."""
    return _course(
        *(
            Tweeted(id=f"e{n}", author=("ada", "bob", "eve")[n % 3], mentioned=("nova", "lyra"), protected=n % 6 == 2)
            for n in range(20)
        ),
        apart=25,
    )


def many_secrets() -> Script:
    """More mentions by a protected author than a celebrity's purse has fan-outs, and public ones among them."""
    return _course(
        *(
            Tweeted(id=f"e{n}", author="ada" if n % 5 == 4 else "eve", mentioned=("nova", "lyra"), protected=n % 5 != 4)
            for n in range(12)
        ),
        apart=20,
    )


def moving_sets() -> Script:
    """People come and go between tiers while a burst is delivered."""
    script = _course(Tweeted(id="e1", author="ada", mentioned=("nova",)))
    names, hours = ("kim", "lee", "max", "pat", "quinn", "roy"), (1, 100, 500, 2_000)
    changes = [
        Happening(step=n * 9, what=Changed(person=names[n % 6], what=f"idle:{hours[n % 4]}")) for n in range(1, 120)
    ]
    return replace(script, steps=1_200).with_more(*changes)


def retries() -> Script:
    """The same, while workers die behind their first seals; whoever does their slices again finds other live sets."""
    deaths = [
        Happening(point=(f"{pool}-1", SEALED), what=Killed(process=f"{pool}-1", back_after=BACK_AFTER))
        for pool in ("p0", "p1", "p2")
    ]
    return moving_sets().with_more(*deaths)


def a_pause() -> Script:
    """P1 is paused before the mention, and slowed when the pause ends."""
    script = _course(Tweeted(id="e1", author="ada", mentioned=("nova", "lyra")))
    pause = Throttled(tier="p1", rate=None, lasting=timedelta(seconds=8))
    slow = Throttled(tier="p1", rate=1_000.0, lasting=timedelta(seconds=12))
    return script.with_more(Happening(step=1, what=pause), Happening(step=1, what=slow))


def watched() -> Script:
    """Somebody opens the tab all the time and says that all of it was seen."""
    visits = [Happening(step=60 * n, what=Opened(person="kim", see=True)) for n in range(1, 30)]
    return replace(_course(Tweeted(id="e1", author="ada", mentioned=("nova", "orion"))), steps=1_800).with_more(*visits)


def a_look() -> Script:
    """One who was away for two months opens the tab, and a mention comes before or after the roll-up knows."""
    script = _course(Tweeted(id="e1", author="ada", mentioned=("nova",)), apart=0)
    looks = Happening(step=20, what=Opened(person="quinn")), Happening(step=900, what=Opened(person="quinn"))
    more = Happening(step=700, what=Tweeted(id="e2", author="bob", mentioned=("lyra",)))
    return replace(script, steps=1_000, rolls_up=timedelta(seconds=2)).with_more(*looks, more)


WORDS = ("follow", "mute", "volume:off", "unmute", "unfollow", "volume:all", "follow", "volume:first", "volume:digest")


def a_graph() -> Script:
    """A storm of two accounts while people come, go, mute and want less of them between any two steps; now and then a
    follow or its end comes late, behind what was said after it."""
    names, owners = ("kim", "lee", "max", "pat", "quinn", "roy"), ("nova", "lyra", "bob")
    tweets = [
        Happening(step=5 + 60 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=owners[: 1 + n % 2]))
        for n in range(30)
    ]
    words = [
        Happening(
            step=20 + 17 * n,
            what=Changed(
                person=names[n % 6],
                what=WORDS[(n + n // 9) % 9],
                whom=owners[n // 5 % 3],
                sequence=1 if n % 8 == 7 else 0,
            ),
        )
        for n in range(130)
    ]
    looks = [Happening(step=100 * n, what=Opened(person=names[n % 6])) for n in range(1, 24)]
    return Script(seed=1, steps=2_400, happenings=[*tweets, *words, *looks], collapse=timedelta(0), graph=True)


def first_followers() -> Script:
    """An account gets its first follower in a shard, again and again, and is mentioned all the while."""
    words = [
        Happening(step=30 + 100 * n, what=Changed(person=person, what=what, whom="bob"))
        for n, (person, what) in enumerate(product(("quinn", "kim") * 3, ("follow", "unfollow")))
    ]
    names = [f"e{n}" for n in range(85)]
    tweets = [
        Happening(step=10 + 14 * n, what=Tweeted(id=id, author="ada", mentioned=("bob",))) for n, id in enumerate(names)
    ]
    return Script(seed=1, steps=1_250, happenings=[*words, *tweets], collapse=timedelta(0), graph=True)


def zombies() -> Script:
    """Indexers sleep past their leases in the middle of what they do, wake behind their heirs, and write what was so
    before. So that leases end while words go on, the machine halts now and then; then mentions come."""
    asleep = [
        Happening(point=(f"pump-{pump}/indexer", n), what=Stalled(name=f"pump-{pump}/indexer", lasting=PAST_A_LEASE))
        for pump in (1, 2)
        for n in range(20 + 9 * pump, 1_500, 37)
    ]
    # Each once, for who says something anew would mend what was undone.
    words = [
        Happening(step=20 + 30 * n, what=Changed(person=f"c{n % 40}", what=("follow", "mute")[n // 40], whom="lyra"))
        for n in range(80)
    ]
    halts = [Happening(step=n, what=Frozen(lasting=timedelta(seconds=2))) for n in range(50, 2_800, 50)]
    tweets = [
        Happening(step=2_850 + 40 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("lyra", "nova")))
        for n in range(6)
    ]
    happenings = [*words, *asleep, *halts, *tweets]
    return Script(seed=1, steps=3_100, happenings=happenings, pumps=2, crowd=40, collapse=timedelta(0), graph=True)


def a_wipe() -> Script:
    """People open their tabs in a storm while Redis is emptied, and while the roll-up that leads sleeps or ends."""
    names = ("kim", "max", "pat", "quinn", "roy", "lee")
    looks = [Happening(step=40 + 45 * n, what=Opened(person=names[n % 6])) for n in range(20)]
    tweets = [
        Happening(step=30 + 50 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")))
        for n in range(16)
    ]
    faults = [
        Happening(step=n, what=what) for n in (310, 620) for what in (Wiped(), Frozen(lasting=timedelta(hours=1)))
    ]
    script = Script(seed=1, steps=1_000, happenings=[*tweets, *looks, *faults], pumps=2, rolls_up=timedelta(seconds=2))
    return replace(script, collapse=timedelta(0))


SIZES_OF_NOVA = (1_200_000, 950_000, 850_000, 950_000, 1_050_000, 850_000)
"""Up and down over both lines of a threshold of a million, and between them."""


def a_crossing() -> Script:
    """An account takes one lane and the other while mentions are on their way in both; hours pass now and then, so
    that it can afford many bursts."""
    tweets = [
        Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")[: 1 + n % 2], protected=n % 9 == 5)
        for n in range(36)
    ]
    happenings = [Happening(step=5 + 80 * n, what=tweet) for n, tweet in enumerate(tweets)]
    happenings += [
        Happening(step=15 + 110 * n, what=Resized(account="nova", followers=SIZES_OF_NOVA[n % 6])) for n in range(27)
    ]
    happenings += [Happening(step=300 + 330 * n, what=Frozen(lasting=timedelta(hours=1))) for n in range(8)]
    happenings += [Happening(step=250 * n, what=Opened(person=("kim", "pat")[n % 2], see=True)) for n in range(1, 12)]
    return Script(seed=1, steps=3_000, happenings=happenings, pumps=2, threshold=1_000_000, resizes=True)


COURSES = {
    "one": one_mention,
    "join": a_join,
    "storm": a_storm,
    "secrets": many_secrets,
    "moving": moving_sets,
    "retries": retries,
    "pause": a_pause,
    "look": a_look,
    "graph": a_graph,
    "quarrel": a_quarrel,
    "first": first_followers,
    "zombies": zombies,
    "wipe": a_wipe,
    "crossing": a_crossing,
    "hold": a_hold,
    "days": some_days,
    "back": taking_back,
    "reopening": reopening,
    "dialling": dialling,
    "redialling": redialling,
    "nights": nights,
    "mornings": mornings,
}


def dies(thread: str) -> Fault:
    return Killed(process=thread.partition("/")[0], back_after=BACK_AFTER)


def fails(how: How) -> Callable[[str], Fault]:
    return lambda thread: Failing(thread=thread, how=how)


def sleeps(thread: str) -> Fault:
    return Stalled(name=thread, lasting=SLEEPS)


def points(
    script: Script,
    fault: Callable[[str], Fault],
    *,
    every: int = 1,
    start: int = 0,
    twins: bool = True,
    within: str = "",
) -> Iterator[tuple[str, int, Trial]]:
    """The trial of each point that the undisturbed course comes by until all is quiet, rests left out.

    A share of them with `every` and `start`, and one loop's alone with `within`. Without twins, a point that stands
    before a call is left out where another one stands behind the call before it: a thread has no effect between the
    two, so who dies at either leaves the same behind.
    """
    undisturbed = trial(script)
    for thread, labels in sorted(undisturbed.points.items()):
        busy = [
            n for n in range(len(labels)) if not IDLE.issuperset(map(_call, labels[max(0, n - IDLE_AFTER) : n + 1]))
        ]
        if not twins:
            struck_behind = {n for n in busy if labels[n].startswith(BEHIND)}
            busy = [n for n in busy if n - 1 not in struck_behind]
        for n in [] if thread.startswith("people/") or not thread.endswith(within) else busy[start::every]:
            struck = Happening(point=(thread, n + 1), what=fault(thread))
            yield f"{thread} at {labels[n]}", n + 1, trial(script.with_more(struck))


def _call(label: str) -> str:
    return label.removeprefix(BEHIND)


def _course(*tweets: Tweeted, apart: int = 0) -> Script:
    happenings = [Happening(step=2 + n * apart, what=tweet) for n, tweet in enumerate(tweets)]
    last = happenings[-1].step
    happenings += [Happening(step=last + n, what=Opened(person="kim", see=True)) for n in (60, 200)]
    return replace(Script(seed=1, steps=last + 400), happenings=happenings)
