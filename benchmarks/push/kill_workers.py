"""`sent_once_on_device`: workers of alerts, and their providers, die amid a burst, and each phone shows it once."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fanout.stage import staged
from benchmarks.push.arrivals import Heard, Told
from benchmarks.rounds import Figure
from notifier.devkit.check.check_alerts import Rang
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.fixture.world import World
from notifier.domain.audience.tiers import TIERS

NAME = "sent_once_on_device"
SEEDS, SEEDS_QUICK = 20, 2
ROLES = ("push.fcm", "fakes", "push.apns", "push.web", "push.fcm", "push.apns", "push.web")
"""In turns; `fakes` are all providers at once, and workers come back to them half a minute later."""
WORLD = World(universe=8_000, followers=8_000, celebrities=1, seed=1)
SLOWLY = "latency=200ms,streams=20"
"""So that a burst takes its provider seconds, and a worker is caught amid it."""
LATER = 0.5
"""Seconds in which it is killed, counted from the burst's first alert there."""
AMID = 0.5
"""Of the kills are to hit a burst of which more is to come: others prove nothing."""
RINGS_WITHIN, BACK_WITHIN, DONE_WITHIN = 90.0, 30.0, 180.0
"""Seconds: until a provider that was given up is asked again, until a role is back, until all is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    role: str
    told: Told
    before: int
    """Alerts of the burst that had come to the role's phones."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    seeds = SEEDS_QUICK if quick else SEEDS
    settings: dict[str, Any] = {"push_tiers": ",".join(TIERS), "push_hourly": 0, "push_daily": 0}
    with staged(folder, WORLD, tell=tell, collapse="PT0S", push_fakes="on", push_fake_script=SLOWLY, **settings) as one:
        heard = Heard(stage=one, tiers=TIERS)
        kills = [_kill(heard, seed, tell) for seed in range(seeds)]
        tell("waiting until all is told")
        one.rest(DONE_WITHIN)
        return [Figure(finding=finding(kills, heard.lines()))]


def _kill(heard: Heard, seed: int, tell: Callable[[str], None]) -> Kill:
    """The role dies at a moment that the seed chose, and is back."""
    role, chance = ROLES[seed % len(ROLES)], Random(f"{NAME} {seed}")
    told = heard.mention(WORLD.names[0])
    heard.wait(lambda: bool(_there(role, heard.of(told))), RINGS_WITHIN, f"The first alert of {told.burst.key}")
    time.sleep(chance.uniform(0, LATER))
    pid = heard.stage.instance.pid(role)
    assert pid is not None, f"There is no {role}."
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    kill = Kill(role=role, told=told, before=len(_there(role, heard.of(told))))
    tell(f"seed {seed}: {role} killed, {kill.before} alerts into its burst")
    heard.wait(lambda: heard.stage.instance.pid(role) not in (None, pid), BACK_WITHIN, f"The next {role}")
    return kill


def _there(role: str, lines: Sequence[Rang]) -> Sequence[Rang]:
    """Of the role's platform."""
    return [line for line in lines if role in ("fakes", f"push.{line.platform}")]


def finding(kills: Collection[Kill], lines: Sequence[Rang]) -> Finding:
    wrong = [line for kill in kills for line in differences(kill.told, lines)]
    places = {kill.told.place for kill in kills}
    wrong += [f"{line.to} rang for {line.place}, which is no burst's" for line in lines if line.place not in places]
    amid = sum(len(_there(kill.role, _of(kill.told, lines))) > kill.before for kill in kills)
    if amid < AMID * len(kills):
        wrong.append(f"only {amid} of {len(kills)} were killed amid a burst")
    found = agreement(NAME, wrong, n=sum(len(kill.told.due) for kill in kills))
    again = sum(line.again for line in lines)
    words = f"{len(kills)} seeds, {amid} of them amid sending: {found.n:,} phones told, {again} alerts came again"
    return replace(found, detail=words) if found.ok else found


def differences(told: Told, lines: Sequence[Rang]) -> Iterator[str]:
    """Each phone that is due shows the burst in one place; what came twice there was the very same alert."""
    here = _of(told, lines)
    times = Counter(line.member for line in here if not line.again)
    missing = [member for member in told.due if member not in times]
    yield from (f"{told.burst.key}: u{member} was never told" for member in missing)
    yield from (f"{told.burst.key}: u{member} got {n} different alerts" for member, n in times.items() if n > 1)
    strange = [line.to for line in here if line.member not in told.due]
    yield from (f"{told.burst.key}: {to} rang, and nobody is to be told there" for to in strange)


def _of(told: Told, lines: Sequence[Rang]) -> Sequence[Rang]:
    return [line for line in lines if line.place == told.place]
