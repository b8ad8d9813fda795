"""The dice: a script of inputs and faults from a seed, mild or wild."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

from notifier.domain.delivery.slice import Pool
from tests.support.simulator.cast import AUTHORS, VIEWERS
from tests.support.simulator.scenarios.devices import ANSWERS, DEVICES, OWNERS
from tests.support.simulator.script import (
    ALL,
    Changed,
    Failing,
    Fault,
    Frozen,
    Happening,
    How,
    Input,
    Judged,
    Killed,
    Meddled,
    Meddling,
    Opened,
    Outage,
    Part,
    Resized,
    Script,
    Stalled,
    TakenBack,
    Throttled,
    Tweeted,
    Wiped,
)

MENTIONED = ("nova", "nova", "nova", "lyra", "orion", "eve", "ghost", "gone", "ada")
LANES = ("router", "celebrity", "standard", "dispatcher", "reconciler", "monitor")
WORKERS = ("p0", "p1", "p2", "push")
QUEUES = (Pool.P0, Pool.P1, Pool.P2, Pool.FCM)
CHANGES = ("follow", "unfollow", "mute", "unmute", "volume:off", "volume:first", "volume:all", "volume:digest")
OF_EVERYTHING = ("overall:off", "overall:first", "overall:all", "overall:digest", "alerts:off", "alerts:on")
SLEEPERS = ("kim", "lee", "roy", "nova", "max")
ENDS = ("protect", "erase")
"""Of all that an author has written, in the order in which it may be said."""
HABITS = ("vip", "push", "idle:1", "idle:100", "idle:500", "idle:2000")


def scripted(seed: int, *, steps: int = 1_500, faults: int | None = None) -> Script:
    """The same for the same seed; about a third of the scripts have sets that move."""
    random = Random(f"script {seed}")
    pumps, workers = random.choice((1, 1, 2)), random.choice((1, 1, 2))
    collapse = random.choice((None, None, timedelta(0), timedelta(seconds=1)))
    inputs = [_tweeted(random, n) for n in range(random.randint(1, 8))]
    inputs += [_opened(random) for _ in range(random.randint(1, 8))]
    if random.random() < 0.35:
        inputs += [_changed(random) for _ in range(random.randint(1, 5))]
    if random.random() < 0.3:
        inputs += [_throttled(random) for _ in range(random.randint(1, 2))]
    number = random.choice((0, 1, 2, 3, 5, 8)) if faults is None else faults
    whats: list[Input | Fault] = [*inputs, *(_fault(random, pumps, workers) for _ in range(number))]
    script = Script(
        seed=seed,
        steps=steps,
        happenings=[Happening(step=random.randint(1, steps), what=what) for what in whats],
        pumps=pumps,
        workers=workers,
        collapse=collapse,
        crowd=random.choice((0, 0, 40)),
    )
    moving = _moving(script, Random(f"graph {seed}"))
    crossing = _crossing(_parting(moving, Random(f"parting {seed}")), Random(f"crossing {seed}"))
    taking_back = _taking_back(crossing, Random(f"retractions {seed}"))
    dialling = _dialling(_holding(taking_back, Random(f"holding {seed}")), Random(f"devices {seed}"))
    sleeping = _sleeping(_answering(dialling, Random(f"answers {seed}")), Random(f"nights {seed}"))
    return _reaching(sleeping, Random(f"providers {seed}"))


def _parting(script: Script, random: Random) -> Script:
    """In two fifths of the scripts people and accounts block each other, and take it back."""
    if random.random() < 0.6:
        return script
    more = [Happening(step=random.randint(1, script.steps), what=_parted(random)) for _ in range(random.randint(1, 8))]
    return script.with_more(*more)


def _parted(random: Random) -> Input:
    """Of whom it is about, one is mentioned, or mentions; either may block the other."""
    whom = random.choice(("nova", "nova", "lyra", "ada", "bob", "eve"))
    pair = [random.choice([name for name in VIEWERS if name != whom]), whom]
    person, other = pair if random.random() < 0.6 else reversed(pair)
    what, late = random.choice(("block", "block", "unblock")), random.choice((0, 0, 0, 1, 2))
    return Changed(person=person, what=what, whom=other, sequence=late)


def _holding(script: Script, random: Random) -> Script:
    """In a fifth of the scripts an operator holds some authors' mentions, now and then, and lets them go."""
    if random.random() < 0.8:
        return script
    words = [
        Judged(account=random.choice(AUTHORS), verdict=random.choice(("hold", "hold", "all")))
        for _ in range(random.randint(1, 5))
    ]
    more = [Happening(step=random.randint(1, script.steps // 2), what=word) for word in words]
    return replace(script, desk=True).with_more(*more)


def _dialling(script: Script, random: Random) -> Script:
    """In a third of the scripts devices are registered, move among people and are lost; who hears of it is struck, too.
    Nobody's phone is there or not by itself then."""
    habits = [one.what for one in script.happenings if isinstance(one.what, Changed) and one.what.what == "push"]
    if habits or random.random() < 0.67:
        return script
    whats: list[Input | Fault] = [_dialled(random) for _ in range(random.randint(2, 20))]
    threads = ["api/phones", *(f"pump-{n + 1}/switchboard" for n in range(script.pumps))]
    whats += [_strikes(random, random.choice(threads)) for _ in range(random.choice((0, 0, 1, 3)))]
    more = [Happening(step=random.randint(1, script.steps), what=what) for what in whats]
    return replace(script, devices=True).with_more(*more)


def _dialled(random: Random) -> Input:
    what = f"phone:{random.choice(('on', 'on', 'on', 'off', 'drop'))}:{random.randrange(DEVICES)}"
    return Changed(person=random.choice(OWNERS), what=what)


def _answering(script: Script, random: Random) -> Script:
    """Where devices go round, their providers don't always take what is sent to them."""
    if not script.devices or random.random() < 0.3:
        return script
    whats = [
        Changed(person=OWNERS[0], what=f"phone:{random.choice([*ANSWERS])}:{random.randrange(DEVICES)}")
        for _ in range(random.randint(1, 12))
    ]
    return script.with_more(*(Happening(step=random.randint(1, script.steps), what=what) for what in whats))


def _sleeping(script: Script, random: Random) -> Script:
    """In a fifth of the scripts some have quiet hours, which have begun, or begin when the machine has slept. Others
    get up in the middle of them."""
    if random.random() < 0.8:
        return script
    names = random.sample(SLEEPERS, random.randint(1, 3))
    hours = ("quiet:11-13", "quiet:12-14", "quiet:10-23", "quiet:13-15")
    whats: list[tuple[int, Input | Fault]] = [
        (random.randint(1, 200), Changed(person=name, what=random.choice(hours))) for name in names
    ]
    late = random.randint(200, script.steps)
    whats += random.choice(([], [(late, Changed(person=names[0], what="quiet:0-0"))]))
    whats += random.choice(([], [(late, Frozen(lasting=timedelta(minutes=random.choice((16, 61)))))]))
    return script.with_more(*(Happening(step=step, what=what) for step, what in whats))


def _reaching(script: Script, random: Random) -> Script:
    """In a tenth of the scripts, and in half of those in which some sleep, people have phones of several providers."""
    sleepers = any(isinstance(one.what, Changed) and one.what.what.startswith("quiet") for one in script.happenings)
    if script.devices or random.random() < (0.5 if sleepers else 0.9):
        return script
    return replace(script, platforms=ALL)


def _crossing(script: Script, random: Random) -> Script:
    """In a fifth of the scripts an account crosses the threshold, up and down: one with a budget, or one without."""
    if random.random() < 0.8:
        return script
    account, threshold = random.choice((("nova", 1_000_000), ("lyra", 1_000)))
    sizes = [threshold * ratio // 100 for ratio in (50, 85, 95, 100, 120)]
    whats = [Resized(account=account, followers=random.choice(sizes)) for _ in range(random.randint(2, 9))]
    more = [Happening(step=random.randint(1, script.steps), what=what) for what in whats]
    return replace(script, threshold=threshold, resizes=True).with_more(*more)


def _moving(script: Script, random: Random) -> Script:
    """About half of the scripts have an indexer, whom much is said between any two steps of a burst."""
    if random.random() < 0.5:
        return script
    whats: list[Input | Fault] = [_said(random) for _ in range(random.randint(1, 15))]
    if random.random() < 0.5:
        sleepers = [f"pump-{n + 1}/indexer" for n in range(script.pumps)]
        lasting = timedelta(seconds=random.choice((1, 7, 7, 40)))
        whats += [Stalled(name=random.choice(sleepers), lasting=lasting) for _ in range(random.randint(1, 3))]
    more = [Happening(step=random.randint(1, script.steps), what=what) for what in whats]
    return replace(script, graph=True).with_more(*more)


def _taking_back(script: Script, random: Random) -> Script:
    """In a third of the scripts tweets are taken back, and authors, before they come or after; who hears of it is
    struck, too. Nobody is protected once erased."""
    if random.random() < 0.67:
        return script
    tweets = [one.what for one in script.happenings if isinstance(one.what, Tweeted)]
    words = [word for tweet in tweets if random.random() < 0.6 for word in _withdrawn(random, tweet)]
    author, steps = random.choice(AUTHORS), sorted(random.randint(1, script.steps) for _ in range(2))
    ends = [
        Happening(step=step, what=TakenBack(what=what, author=author)) for step, what in zip(steps, ENDS, strict=True)
    ]
    more = [Happening(step=random.randint(1, script.steps), what=word) for word in words]
    more += random.choice(([], ends[:1], ends[1:], ends))
    if random.random() < 0.5:
        threads = ["api/retractions", *(f"pump-{n + 1}/retractor" for n in range(script.pumps))]
        faults = [_strikes(random, random.choice(threads)) for _ in range(random.randint(1, 3))]
        more += [Happening(step=random.randint(1, script.steps), what=fault) for fault in faults]
    return script.with_more(*more)


def _withdrawn(random: Random, tweet: Tweeted) -> Sequence[Input]:
    """Whom an edit leaves out stays out: of who is named again it says nothing whether it is told."""
    if random.random() < 0.6:
        return [TakenBack(what="delete", author=tweet.author, tweet=tweet.id)]
    fewer = [tweet.mentioned[: random.randint(0, len(tweet.mentioned))] for _ in range(random.choice((1, 1, 2)))]
    return [
        TakenBack(what="edit", author=tweet.author, tweet=tweet.id, mentioned=names, sequence=n)
        for n, names in enumerate(sorted(fewer, key=len, reverse=True), start=1)
    ]


def _strikes(random: Random, thread: str) -> Fault:
    lasting = timedelta(seconds=random.choice((0.3, 3, 7, 40)))
    process = thread.partition("/")[0]
    return random.choice(
        (
            Stalled(name=thread, lasting=lasting),
            Failing(thread=thread, how=random.choice(list(How))),
            Killed(process=process, back_after=lasting),
        )
    )


def _tweeted(random: Random, n: int) -> Input:
    author = random.choice(AUTHORS)
    mentioned = tuple(dict.fromkeys(random.choice(MENTIONED) for _ in range(random.choice((1, 1, 2, 3)))))
    return Tweeted(id=f"e{n}", author=author, mentioned=mentioned, protected=author == "eve" and random.random() < 0.6)


def _opened(random: Random) -> Input:
    mark = random.choice(("", "", "", "hidden", "unread", "read"))
    see = random.random() < 0.6
    return Opened(person=random.choice(VIEWERS), limit=random.choice((1, 2, 50)), see=see, mark=mark)


def _changed(random: Random) -> Input:
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


def _said(random: Random) -> Input:
    """Now and then a follow or its end comes late, with a sequence of before."""
    what = random.choice((*CHANGES, *OF_EVERYTHING))
    whom = random.choice(("nova", "nova", "lyra", "orion", "eve", "bob"))
    late = random.choice((0, 0, 0, 1, 2))
    person = random.choice([name for name in VIEWERS if name != whom])
    return Changed(person=person, what=what, whom=whom, sequence=late)


def _throttled(random: Random) -> Input:
    rate = random.choice((None, None, 1_000.0, 1_000_000.0))
    return Throttled(
        tier=random.choice(("p0", "p1", "p2")), rate=rate, lasting=timedelta(seconds=random.randint(1, 20))
    )


def _fault(random: Random, pumps: int, workers: int) -> Fault:
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
            return Failing(thread=thread, how=random.choice(list(How)))
        case 8:
            return Outage(part=random.choice(list(Part)), lasting=timedelta(seconds=random.choice((0.5, 3, 8))))
        case 9:
            return Wiped()
        case 10:
            return Meddled(pool=random.choice(QUEUES), how=random.choice(list(Meddling)))
        case _:
            return Frozen(lasting=timedelta(seconds=random.choice((1.5, 5, 70, 1_000, 3_700, 25_000, 90_000))))
