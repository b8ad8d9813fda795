"""Delivery and graph scenarios, and runs of a scenario with a fault at each point."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product

from tests.support.simulator.population import AUTHORS
from tests.support.simulator.run_and_shorten import Trial, trial
from tests.support.simulator.scenarios.devices import device_changes, device_retries
from tests.support.simulator.scenarios.moderation import held_mentions
from tests.support.simulator.scenarios.quiet_hours_and_several_days import after_quiet_hours, quiet_hours, several_days
from tests.support.simulator.scenarios.retractions_and_user_blocks import many_retractions, user_blocks
from tests.support.simulator.scenarios.warm_caches import reopening
from tests.support.simulator.script import (
    AFTER_EFFECT,
    Changed,
    Failing,
    FailureMode,
    Fault,
    Frozen,
    Killed,
    Opened,
    Resized,
    Script,
    ScriptEntry,
    Stalled,
    Throttled,
    Tweeted,
    Wiped,
)

BACK_AFTER = timedelta(seconds=1)
SNAPSHOTS_WRITTEN = 14
"""Point of a worker's thread at which its first audience snapshots are written and nothing else."""
SLEEPS = timedelta(seconds=40)
"""Longer than any claim or lease."""
PAST_A_LEASE = timedelta(seconds=9)
"""Longer than the lease of a partition."""

IDLE = {
    *(
        "consumer.poll",
        "queue.take",
        "queue.depth",
        "leases.acquire",
        "ledger.unfinished_bursts",
        "deferred_bursts.wake_due",
        "throttles.ending_after",
    ),
    *("backpressure.level", "backlog_report.publish"),
    *("held_mentions.waiting", "held_mentions.count"),
    *("backpressure.set_level", "pull.generation", "heads.unpublished", "inbox.delete_expired"),
    *(
        "epochs.begin",
        "directory.next_number",
        "active_hours.read",
        "active_hours.last_roll_up",
        "active_hours.record_roll_up",
    ),
}
"""Calls of a thread that has nothing to do."""
IDLE_AFTER = 16
"""After this many idle calls in a row a thread is at rest, and further points add nothing."""


def one_mention() -> Script:
    return _scenario(Tweeted(id="e1", author="ada", mentioned=("nova",)))


def joined_mentions() -> Script:
    """The second mention joins the burst of the first."""
    first, second = (Tweeted(id=f"e{n}", author=author, mentioned=("lyra",)) for n, author in ((1, "ada"), (2, "bob")))
    return _scenario(first, second, apart=300)


def storm() -> Script:
    """Twenty mentions of two subjects, some of them by a protected author."""
    return _scenario(
        *(
            Tweeted(id=f"e{n}", author=("ada", "bob", "eve")[n % 3], mentioned=("nova", "lyra"), protected=n % 6 == 2)
            for n in range(20)
        ),
        apart=25,
    )


def many_restricted_bursts() -> Script:
    """A protected author mentions celebrities more often than their budget allows, with public mentions in between."""
    return _scenario(
        *(
            Tweeted(id=f"e{n}", author="ada" if n % 5 == 4 else "eve", mentioned=("nova", "lyra"), protected=n % 5 != 4)
            for n in range(12)
        ),
        apart=20,
    )


def moving_sets() -> Script:
    """People come and go between tiers while a burst is delivered."""
    script = _scenario(Tweeted(id="e1", author="ada", mentioned=("nova",)))
    names, hours = ("kim", "lee", "max", "pat", "quinn", "roy"), (1, 100, 500, 2_000)
    changes = [
        ScriptEntry(step=n * 9, what=Changed(person=names[n % 6], what=f"idle:{hours[n % 4]}")) for n in range(1, 120)
    ]
    return replace(script, steps=1_200).with_more(*changes)


def retries() -> Script:
    """The moving sets, while workers die after their first audience snapshots. Workers that retry find other sets."""
    deaths = [
        ScriptEntry(point=(f"{pool}-1", SNAPSHOTS_WRITTEN), what=Killed(process=f"{pool}-1", back_after=BACK_AFTER))
        for pool in ("p0", "p1", "p2")
    ]
    return moving_sets().with_more(*deaths)


def paused_tier() -> Script:
    """P1 is paused before the mention, and slowed when the pause ends."""
    script = _scenario(Tweeted(id="e1", author="ada", mentioned=("nova", "lyra")))
    pause = Throttled(tier="p1", rate=None, lasting=timedelta(seconds=8))
    slow = Throttled(tier="p1", rate=1_000.0, lasting=timedelta(seconds=12))
    return script.with_more(ScriptEntry(step=1, what=pause), ScriptEntry(step=1, what=slow))


def frequent_visits() -> Script:
    """A user opens the inbox all the time and marks everything as seen."""
    visits = [ScriptEntry(step=60 * n, what=Opened(person="kim", see=True)) for n in range(1, 30)]
    return replace(_scenario(Tweeted(id="e1", author="ada", mentioned=("nova", "orion"))), steps=1_800).with_more(
        *visits
    )


def returning_user() -> Script:
    """A user who was away for two months opens the inbox; mentions come before and after the roll-up."""
    script = _scenario(Tweeted(id="e1", author="ada", mentioned=("nova",)), apart=0)
    visits = ScriptEntry(step=20, what=Opened(person="quinn")), ScriptEntry(step=900, what=Opened(person="quinn"))
    mention = ScriptEntry(step=700, what=Tweeted(id="e2", author="bob", mentioned=("lyra",)))
    return replace(script, steps=1_000, roll_up_every=timedelta(seconds=2)).with_more(*visits, mention)


CHANGE_KINDS = (
    "follow",
    "mute",
    "volume:off",
    "unmute",
    "unfollow",
    "volume:all",
    "follow",
    "volume:first",
    "volume:digest",
)


def graph_changes() -> Script:
    """A storm of two accounts while users follow, mute and change volumes between any two steps.

    Some follows and unfollows come late, after newer ones.
    """
    names, owners = ("kim", "lee", "max", "pat", "quinn", "roy"), ("nova", "lyra", "bob")
    tweets = [
        ScriptEntry(step=5 + 60 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=owners[: 1 + n % 2]))
        for n in range(30)
    ]
    changes = [
        ScriptEntry(
            step=20 + 17 * n,
            what=Changed(
                person=names[n % 6],
                what=CHANGE_KINDS[(n + n // 9) % 9],
                whom=owners[n // 5 % 3],
                sequence=1 if n % 8 == 7 else 0,
            ),
        )
        for n in range(130)
    ]
    visits = [ScriptEntry(step=100 * n, what=Opened(person=names[n % 6])) for n in range(1, 24)]
    return Script(seed=1, steps=2_400, entries=[*tweets, *changes, *visits], collapse=timedelta(0), graph=True)


def first_followers() -> Script:
    """An account that is mentioned all the time gets its first follower in a shard, again and again."""
    changes = [
        ScriptEntry(step=30 + 100 * n, what=Changed(person=person, what=kind, whom="bob"))
        for n, (person, kind) in enumerate(product(("quinn", "kim") * 3, ("follow", "unfollow")))
    ]
    names = [f"e{n}" for n in range(85)]
    tweets = [
        ScriptEntry(step=10 + 14 * n, what=Tweeted(id=id, author="ada", mentioned=("bob",)))
        for n, id in enumerate(names)
    ]
    return Script(seed=1, steps=1_250, entries=[*changes, *tweets], collapse=timedelta(0), graph=True)


def stalled_indexers() -> Script:
    """Indexers stall past their leases in the middle of a change, and later write outdated values.

    The machine halts now and then, so that leases end while changes go on; mentions come afterwards.
    """
    stalls = [
        ScriptEntry(
            point=(f"pump-{pump}/graph_indexer", n),
            what=Stalled(name=f"pump-{pump}/graph_indexer", lasting=PAST_A_LEASE),
        )
        for pump in (1, 2)
        for n in range(20 + 9 * pump, 1_500, 37)
    ]
    # Each change comes once, because a repeated one would repair what was lost.
    changes = [
        ScriptEntry(step=20 + 30 * n, what=Changed(person=f"c{n % 40}", what=("follow", "mute")[n // 40], whom="lyra"))
        for n in range(80)
    ]
    halts = [ScriptEntry(step=n, what=Frozen(lasting=timedelta(seconds=2))) for n in range(50, 2_800, 50)]
    tweets = [
        ScriptEntry(step=2_850 + 40 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("lyra", "nova")))
        for n in range(6)
    ]
    entries = [*changes, *stalls, *halts, *tweets]
    return Script(seed=1, steps=3_100, entries=entries, pumps=2, crowd=40, collapse=timedelta(0), graph=True)


def redis_wipe() -> Script:
    """Users open inboxes in a storm while Redis is wiped and while the leading roll-up stalls or ends."""
    names = ("kim", "max", "pat", "quinn", "roy", "lee")
    visits = [ScriptEntry(step=40 + 45 * n, what=Opened(person=names[n % 6])) for n in range(20)]
    tweets = [
        ScriptEntry(step=30 + 50 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")))
        for n in range(16)
    ]
    faults = [
        ScriptEntry(step=n, what=action) for n in (310, 620) for action in (Wiped(), Frozen(lasting=timedelta(hours=1)))
    ]
    script = Script(
        seed=1, steps=1_000, entries=[*tweets, *visits, *faults], pumps=2, roll_up_every=timedelta(seconds=2)
    )
    return replace(script, collapse=timedelta(0))


SIZES_OF_NOVA = (1_200_000, 950_000, 850_000, 950_000, 1_050_000, 850_000)
"""Sizes on both sides of a threshold of a million and of its hysteresis band."""


def lane_changes() -> Script:
    """An account changes its lane while mentions are in flight in both.

    Hours pass now and then, so that its budget allows many bursts.
    """
    tweets = [
        Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra")[: 1 + n % 2], protected=n % 9 == 5)
        for n in range(36)
    ]
    entries = [ScriptEntry(step=5 + 80 * n, what=tweet) for n, tweet in enumerate(tweets)]
    entries += [
        ScriptEntry(step=15 + 110 * n, what=Resized(account="nova", followers=SIZES_OF_NOVA[n % 6])) for n in range(27)
    ]
    entries += [ScriptEntry(step=300 + 330 * n, what=Frozen(lasting=timedelta(hours=1))) for n in range(8)]
    entries += [ScriptEntry(step=250 * n, what=Opened(person=("kim", "pat")[n % 2], see=True)) for n in range(1, 12)]
    return Script(seed=1, steps=3_000, entries=entries, pumps=2, threshold=1_000_000, resizes=True)


SCENARIOS = {
    "one_mention": one_mention,
    "joined_mentions": joined_mentions,
    "storm": storm,
    "many_restricted_bursts": many_restricted_bursts,
    "moving_sets": moving_sets,
    "retries": retries,
    "paused_tier": paused_tier,
    "returning_user": returning_user,
    "graph_changes": graph_changes,
    "user_blocks": user_blocks,
    "first_followers": first_followers,
    "stalled_indexers": stalled_indexers,
    "redis_wipe": redis_wipe,
    "lane_changes": lane_changes,
    "held_mentions": held_mentions,
    "several_days": several_days,
    "many_retractions": many_retractions,
    "reopening": reopening,
    "device_changes": device_changes,
    "device_retries": device_retries,
    "quiet_hours": quiet_hours,
    "after_quiet_hours": after_quiet_hours,
}


def crash(thread: str) -> Fault:
    return Killed(process=thread.partition("/")[0], back_after=BACK_AFTER)


def failing_call(how: FailureMode) -> Callable[[str], Fault]:
    return lambda thread: Failing(thread=thread, how=how)


def stall(thread: str) -> Fault:
    return Stalled(name=thread, lasting=SLEEPS)


def points(
    script: Script,
    fault: Callable[[str], Fault],
    *,
    every: int = 1,
    start: int = 0,
    within: str = "",
) -> Iterator[tuple[str, int, Trial]]:
    """Run the scenario once for each point of the undisturbed run at which a thread is busy.

    `every` and `start` select a share of the points, `within` the threads with this suffix. A point before a call is
    left out if the point after the previous call is struck: the thread has no effect in between, so a fault at either
    leaves the same state.
    """
    for thread, labels in sorted(_undisturbed_points(script).items()):
        busy = [
            n for n in range(len(labels)) if not IDLE.issuperset(map(_call, labels[max(0, n - IDLE_AFTER) : n + 1]))
        ]
        struck_after = {n for n in busy if labels[n].startswith(AFTER_EFFECT)}
        busy = [n for n in busy if n - 1 not in struck_after]
        for n in [] if thread.startswith("people/") or not thread.endswith(within) else busy[start::every]:
            entry = ScriptEntry(point=(thread, n + 1), what=fault(thread))
            yield f"{thread} at {labels[n]}", n + 1, trial(script.with_more(entry))


_last_points: tuple[str, Mapping[str, Sequence[str]]] = "", {}
"""Last undisturbed script, and the points of its run. Tests strike one scenario with several faults in a row."""


def _undisturbed_points(script: Script) -> Mapping[str, Sequence[str]]:
    global _last_points  # noqa: PLW0603 - a cache of one entry
    if _last_points[0] != repr(script):
        _last_points = repr(script), trial(script).points
    return _last_points[1]


def _call(label: str) -> str:
    return label.removeprefix(AFTER_EFFECT)


def _scenario(*tweets: Tweeted, apart: int = 0) -> Script:
    entries = [ScriptEntry(step=2 + n * apart, what=tweet) for n, tweet in enumerate(tweets)]
    last = entries[-1].step
    entries += [ScriptEntry(step=last + n, what=Opened(person="kim", see=True)) for n in (60, 200)]
    return replace(Script(seed=1, steps=last + 400), entries=entries)
