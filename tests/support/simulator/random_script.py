"""Builds a random script of inputs and faults from a seed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

from notifier.domain.delivery.slice_and_pool import Pool
from tests.support.simulator.population import AUTHORS, VIEWERS
from tests.support.simulator.scenarios.devices import ANSWERS, DEVICES, OWNERS
from tests.support.simulator.script import (
    ALL,
    Changed,
    Failing,
    FailureMode,
    Fault,
    Frozen,
    Input,
    Killed,
    Opened,
    Outage,
    Part,
    QueueDamage,
    QueueDamaged,
    Resized,
    Retracted,
    Script,
    ScriptEntry,
    Stalled,
    Throttled,
    Tweeted,
    VerdictChanged,
    Wiped,
)

MENTIONED = ("nova", "nova", "nova", "lyra", "orion", "eve", "ghost", "gone", "ada")
LANES = ("router", "celebrity", "standard", "dispatcher", "reconciler", "monitor")
WORKERS = ("p0", "p1", "p2", "push")
QUEUES = (Pool.P0, Pool.P1, Pool.P2, Pool.FCM)
CHANGES = ("follow", "unfollow", "mute", "unmute", "volume:off", "volume:first", "volume:all", "volume:digest")
OF_EVERYTHING = ("overall:off", "overall:first", "overall:all", "overall:digest", "alerts:off", "alerts:on")
QUIET_USERS = ("kim", "lee", "roy", "nova", "max")
ENDS = ("protect", "erase")
"""Retractions of everything by an author, in the order in which they may be sent."""
HABITS = ("vip", "push", "idle:1", "idle:100", "idle:500", "idle:2000")


def random_script(seed: int, *, steps: int = 1_500, faults: int | None = None) -> Script:
    """Return the script of this seed. In about a third of the scripts, member sets change."""
    random = Random(f"script {seed}")
    pumps, workers = random.choice((1, 1, 2)), random.choice((1, 1, 2))
    collapse = random.choice((None, None, timedelta(0), timedelta(seconds=1)))
    inputs = [_random_tweet(random, n) for n in range(random.randint(1, 8))]
    inputs += [_random_visit(random) for _ in range(random.randint(1, 8))]
    if random.random() < 0.35:
        inputs += [_random_change(random) for _ in range(random.randint(1, 5))]
    if random.random() < 0.3:
        inputs += [_random_throttle(random) for _ in range(random.randint(1, 2))]
    number = random.choice((0, 1, 2, 3, 5, 8)) if faults is None else faults
    actions: list[Input | Fault] = [*inputs, *(_random_fault(random, pumps, workers) for _ in range(number))]
    script = Script(
        seed=seed,
        steps=steps,
        entries=[ScriptEntry(step=random.randint(1, steps), what=action) for action in actions],
        pumps=pumps,
        workers=workers,
        collapse=collapse,
        crowd=random.choice((0, 0, 40)),
    )
    with_graph = _with_graph_changes(script, Random(f"graph {seed}"))
    with_resizes = _with_resizes(_with_blocks(with_graph, Random(f"parting {seed}")), Random(f"crossing {seed}"))
    with_retractions = _with_retractions(with_resizes, Random(f"retractions {seed}"))
    with_devices = _with_devices(
        _with_held_mentions(with_retractions, Random(f"holding {seed}")), Random(f"devices {seed}")
    )
    with_quiet_hours = _with_quiet_hours(
        _with_rejections(with_devices, Random(f"answers {seed}")), Random(f"nights {seed}")
    )
    return _with_several_platforms(with_quiet_hours, Random(f"providers {seed}"))


def _with_blocks(script: Script, random: Random) -> Script:
    """In two fifths of the scripts, users block each other and unblock again."""
    if random.random() < 0.6:
        return script
    changes = [
        ScriptEntry(step=random.randint(1, script.steps), what=_block_change(random))
        for _ in range(random.randint(1, 8))
    ]
    return script.with_more(*changes)


def _block_change(random: Random) -> Input:
    """One of the two is mentioned or mentions others; either may be the blocker."""
    account = random.choice(("nova", "nova", "lyra", "ada", "bob", "eve"))
    pair = [random.choice([name for name in VIEWERS if name != account]), account]
    person, peer = pair if random.random() < 0.6 else reversed(pair)
    kind, late = random.choice(("block", "block", "unblock")), random.choice((0, 0, 0, 1, 2))
    return Changed(person=person, what=kind, whom=peer, sequence=late)


def _with_held_mentions(script: Script, random: Random) -> Script:
    """In a fifth of the scripts, an operator holds the mentions of some authors at times, and releases them."""
    if random.random() < 0.8:
        return script
    moderations = [
        VerdictChanged(account=random.choice(AUTHORS), verdict=random.choice(("hold", "hold", "all")))
        for _ in range(random.randint(1, 5))
    ]
    entries = [ScriptEntry(step=random.randint(1, script.steps // 2), what=moderation) for moderation in moderations]
    return replace(script, has_operator=True).with_more(*entries)


def _with_devices(script: Script, random: Random) -> Script:
    """In a third of the scripts, devices are registered, change owners and are dropped.

    Faults also hit the threads that process devices. Users gain and lose devices in no other way then.
    """
    toggles = [entry.what for entry in script.entries if isinstance(entry.what, Changed) and entry.what.what == "push"]
    if toggles or random.random() < 0.67:
        return script
    actions: list[Input | Fault] = [_device_change(random) for _ in range(random.randint(2, 20))]
    threads = ["api/phones", *(f"pump-{n + 1}/device_indexer" for n in range(script.pumps))]
    actions += [_fault_in(random, random.choice(threads)) for _ in range(random.choice((0, 0, 1, 3)))]
    entries = [ScriptEntry(step=random.randint(1, script.steps), what=action) for action in actions]
    return replace(script, devices=True).with_more(*entries)


def _device_change(random: Random) -> Input:
    kind = f"phone:{random.choice(('on', 'on', 'on', 'off', 'drop'))}:{random.randrange(DEVICES)}"
    return Changed(person=random.choice(OWNERS), what=kind)


def _with_rejections(script: Script, random: Random) -> Script:
    """With changing devices, providers sometimes reject alerts."""
    if not script.devices or random.random() < 0.3:
        return script
    answers = [
        Changed(person=OWNERS[0], what=f"phone:{random.choice([*ANSWERS])}:{random.randrange(DEVICES)}")
        for _ in range(random.randint(1, 12))
    ]
    return script.with_more(*(ScriptEntry(step=random.randint(1, script.steps), what=answer) for answer in answers))


def _with_quiet_hours(script: Script, random: Random) -> Script:
    """In a fifth of the scripts, some users have quiet hours, which have begun or begin after the machine slept.

    Some quiet hours are ended early.
    """
    if random.random() < 0.8:
        return script
    names = random.sample(QUIET_USERS, random.randint(1, 3))
    hours = ("quiet:11-13", "quiet:12-14", "quiet:10-23", "quiet:13-15")
    actions: list[tuple[int, Input | Fault]] = [
        (random.randint(1, 200), Changed(person=name, what=random.choice(hours))) for name in names
    ]
    late = random.randint(200, script.steps)
    actions += random.choice(([], [(late, Changed(person=names[0], what="quiet:0-0"))]))
    actions += random.choice(([], [(late, Frozen(lasting=timedelta(minutes=random.choice((16, 61)))))]))
    return script.with_more(*(ScriptEntry(step=step, what=action) for step, action in actions))


def _with_several_platforms(script: Script, random: Random) -> Script:
    """In a tenth of the scripts, and in half of those with quiet hours, users have devices of several providers."""
    has_quiet_hours = any(
        isinstance(entry.what, Changed) and entry.what.what.startswith("quiet") for entry in script.entries
    )
    if script.devices or random.random() < (0.5 if has_quiet_hours else 0.9):
        return script
    return replace(script, platforms=ALL)


def _with_resizes(script: Script, random: Random) -> Script:
    """In a fifth of the scripts, an account crosses the lane threshold up and down."""
    if random.random() < 0.8:
        return script
    account, threshold = random.choice((("nova", 1_000_000), ("lyra", 1_000)))
    sizes = [threshold * ratio // 100 for ratio in (50, 85, 95, 100, 120)]
    resizes = [Resized(account=account, followers=random.choice(sizes)) for _ in range(random.randint(2, 9))]
    entries = [ScriptEntry(step=random.randint(1, script.steps), what=resize) for resize in resizes]
    return replace(script, threshold=threshold, resizes=True).with_more(*entries)


def _with_graph_changes(script: Script, random: Random) -> Script:
    """About half of the scripts have an indexer, which receives many changes between any two steps of a burst."""
    if random.random() < 0.5:
        return script
    actions: list[Input | Fault] = [_random_graph_change(random) for _ in range(random.randint(1, 15))]
    if random.random() < 0.5:
        indexers = [f"pump-{n + 1}/graph_indexer" for n in range(script.pumps)]
        lasting = timedelta(seconds=random.choice((1, 7, 7, 40)))
        actions += [Stalled(name=random.choice(indexers), lasting=lasting) for _ in range(random.randint(1, 3))]
    entries = [ScriptEntry(step=random.randint(1, script.steps), what=action) for action in actions]
    return replace(script, graph=True).with_more(*entries)


def _with_retractions(script: Script, random: Random) -> Script:
    """In a third of the scripts, tweets and authors are retracted before or after the mentions arrive.

    Faults also hit the threads that process retractions. No author is protected after an erasure.
    """
    if random.random() < 0.67:
        return script
    tweets = [entry.what for entry in script.entries if isinstance(entry.what, Tweeted)]
    retractions = [
        retraction for tweet in tweets if random.random() < 0.6 for retraction in _retractions_of(random, tweet)
    ]
    author, steps = random.choice(AUTHORS), sorted(random.randint(1, script.steps) for _ in range(2))
    author_retractions = [
        ScriptEntry(step=step, what=Retracted(what=kind, author=author)) for step, kind in zip(steps, ENDS, strict=True)
    ]
    entries = [ScriptEntry(step=random.randint(1, script.steps), what=retraction) for retraction in retractions]
    entries += random.choice(([], author_retractions[:1], author_retractions[1:], author_retractions))
    if random.random() < 0.5:
        threads = ["api/retractions", *(f"pump-{n + 1}/retractor" for n in range(script.pumps))]
        faults = [_fault_in(random, random.choice(threads)) for _ in range(random.randint(1, 3))]
        entries += [ScriptEntry(step=random.randint(1, script.steps), what=fault) for fault in faults]
    return script.with_more(*entries)


def _retractions_of(random: Random, tweet: Tweeted) -> Sequence[Input]:
    """Return a deletion or edits of the tweet.

    Edits only remove accounts, because a re-added one may or may not be notified.
    """
    if random.random() < 0.6:
        return [Retracted(what="delete", author=tweet.author, tweet=tweet.id)]
    fewer = [tweet.mentioned[: random.randint(0, len(tweet.mentioned))] for _ in range(random.choice((1, 1, 2)))]
    return [
        Retracted(what="edit", author=tweet.author, tweet=tweet.id, mentioned=names, sequence=n)
        for n, names in enumerate(sorted(fewer, key=len, reverse=True), start=1)
    ]


def _fault_in(random: Random, thread: str) -> Fault:
    lasting = timedelta(seconds=random.choice((0.3, 3, 7, 40)))
    process = thread.partition("/")[0]
    return random.choice(
        (
            Stalled(name=thread, lasting=lasting),
            Failing(thread=thread, how=random.choice(list(FailureMode))),
            Killed(process=process, back_after=lasting),
        )
    )


def _random_tweet(random: Random, n: int) -> Input:
    author = random.choice(AUTHORS)
    mentioned = tuple(dict.fromkeys(random.choice(MENTIONED) for _ in range(random.choice((1, 1, 2, 3)))))
    return Tweeted(id=f"e{n}", author=author, mentioned=mentioned, protected=author == "eve" and random.random() < 0.6)


def _random_visit(random: Random) -> Input:
    mark = random.choice(("", "", "", "hidden", "unread", "read"))
    see = random.random() < 0.6
    return Opened(person=random.choice(VIEWERS), limit=random.choice((1, 2, 50)), see=see, mark=mark)


def _random_change(random: Random) -> Input:
    person = random.choice([name for name in VIEWERS if name != "nova"])
    kind = random.random()
    if kind < 0.6:
        return Changed(
            person=person, what=random.choice(CHANGES), whom=random.choice(("nova", "nova", "lyra", "orion"))
        )
    if kind < 0.7:
        return Changed(person=person, what="block", whom=random.choice(("ada", "bob")))
    if kind < 0.83:
        return Changed(person=person, what=random.choice(OF_EVERYTHING))
    return Changed(person=person, what=random.choice(HABITS))


def _random_graph_change(random: Random) -> Input:
    """Return a change; some follows and unfollows come late, with an earlier sequence."""
    kind = random.choice((*CHANGES, *OF_EVERYTHING))
    account = random.choice(("nova", "nova", "lyra", "orion", "eve", "bob"))
    late = random.choice((0, 0, 0, 1, 2))
    person = random.choice([name for name in VIEWERS if name != account])
    return Changed(person=person, what=kind, whom=account, sequence=late)


def _random_throttle(random: Random) -> Input:
    rate = random.choice((None, None, 1_000.0, 1_000_000.0))
    return Throttled(
        tier=random.choice(("p0", "p1", "p2")), rate=rate, lasting=timedelta(seconds=random.randint(1, 20))
    )


def _random_fault(random: Random, pumps: int, workers: int) -> Fault:
    processes = [f"pump-{n + 1}" for n in range(pumps)] * 3
    processes += [f"{pool}-{n + 1}" for pool in WORKERS for n in range(workers)] + ["api"]
    process = random.choice(processes)
    thread = f"{process}/{random.choice(LANES)}" if process.startswith("pump") else process
    thread = "api/gateway" if process == "api" else thread
    seconds = timedelta(seconds=random.choice((0.3, 1.5, 3, 7, 40)))
    match random.randrange(12):
        case 0 | 1 | 2:
            return Killed(process=process, back_after=timedelta(seconds=random.choice((0.2, 1, 6, 15))))
        case 3 | 4:
            return Stalled(name=random.choice((process, thread, thread)), lasting=seconds)
        case 5 | 6 | 7:
            return Failing(thread=thread, how=random.choice(list(FailureMode)))
        case 8:
            return Outage(part=random.choice(list(Part)), lasting=timedelta(seconds=random.choice((0.5, 3, 8))))
        case 9:
            return Wiped()
        case 10:
            return QueueDamaged(pool=random.choice(QUEUES), how=random.choice(list(QueueDamage)))
        case _:
            return Frozen(lasting=timedelta(seconds=random.choice((1.5, 5, 70, 1_000, 3_700, 25_000, 90_000))))
