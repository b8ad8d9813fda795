"""`sent_once_on_device`: alert workers and providers die during a burst; each phone shows it once."""

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

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.measured_notifier import staged
from benchmarks.push.expected_and_arrived_alerts import ArrivedAlerts, ExpectedAlerts
from notifier.devkit.check.check_alerts import ArrivedAlert
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.fixture.world import World
from notifier.domain.audience.tiers_and_member_sets import TIERS

NAME = "sent_once_on_device"
SEEDS, SEEDS_QUICK = 20, 2
ROLES = ("push.fcm", "fakes", "push.apns", "push.web", "push.fcm", "push.apns", "push.web")
"""Roles in turns. `fakes` are all providers at once, which workers probe again half a minute later."""
WORLD = World(universe=8_000, followers=8_000, celebrities=1, seed=1)
SLOW_SCRIPT = "latency=200ms,streams=20"
"""Slow responses, so that a burst takes its provider seconds and a worker is killed during it."""
MAX_KILL_DELAY_SECONDS = 0.5
"""The role is killed within this time after its first alert of the burst."""
MIN_SHARE_AMID_BURST = 0.5
"""Share of the kills that must hit an unfinished burst. Other kills prove nothing."""
PROBE_TIMEOUT_SECONDS, RECOVERY_TIMEOUT_SECONDS, DONE_TIMEOUT_SECONDS = 90.0, 30.0, 180.0
"""Seconds until a provider behind an open breaker is probed, until a role is back, and until all alerts are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    role: str
    expected: ExpectedAlerts
    before: int
    """Alerts of the burst that the role's phones had got before the kill."""


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    seeds = SEEDS_QUICK if quick else SEEDS
    settings: dict[str, Any] = {"push_tiers": ",".join(TIERS), "push_hourly": 0, "push_daily": 0}
    with staged(
        folder, WORLD, tell=tell, collapse="PT0S", push_fakes="on", push_fake_script=SLOW_SCRIPT, **settings
    ) as stage:
        arrived = ArrivedAlerts(stage=stage, tiers=TIERS)
        kills = [_kill(arrived, seed, tell) for seed in range(seeds)]
        tell("waiting until all alerts are sent")
        stage.await_idle(DONE_TIMEOUT_SECONDS)
        return [Figure(finding=finding(kills, arrived.lines()))]


def _kill(arrived: ArrivedAlerts, seed: int, tell: Callable[[str], None]) -> Kill:
    """Kill the role at a time that the seed chooses, and wait until it is back."""
    role, chance = ROLES[seed % len(ROLES)], Random(f"{NAME} {seed}")
    expected = arrived.mention(WORLD.names[0])
    arrived.wait(
        lambda: bool(_there(role, arrived.of(expected))), PROBE_TIMEOUT_SECONDS, f"first alert of {expected.burst.key}"
    )
    time.sleep(chance.uniform(0, MAX_KILL_DELAY_SECONDS))
    pid = arrived.stage.instance.pid(role)
    assert pid is not None, f"role {role} is not running"
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    kill = Kill(role=role, expected=expected, before=len(_there(role, arrived.of(expected))))
    tell(f"seed {seed}: killed {role} after {kill.before} alerts of the burst")
    arrived.wait(
        lambda: arrived.stage.instance.pid(role) not in (None, pid), RECOVERY_TIMEOUT_SECONDS, f"restart of {role}"
    )
    return kill


def _there(role: str, lines: Sequence[ArrivedAlert]) -> Sequence[ArrivedAlert]:
    """Return the lines of the role's platform."""
    return [line for line in lines if role in ("fakes", f"push.{line.platform}")]


def finding(kills: Collection[Kill], lines: Sequence[ArrivedAlert]) -> Finding:
    wrong = [line for kill in kills for line in differences(kill.expected, lines)]
    places = {kill.expected.place for kill in kills}
    wrong += [
        f"{line.address} got an alert for {line.collapse_id}, which is not a burst"
        for line in lines
        if line.collapse_id not in places
    ]
    amid = sum(len(_there(kill.role, _of(kill.expected, lines))) > kill.before for kill in kills)
    if amid < MIN_SHARE_AMID_BURST * len(kills):
        wrong.append(f"only {amid} of {len(kills)} kills hit an unfinished burst")
    result = no_errors(NAME, wrong, n=sum(len(kill.expected.due) for kill in kills))
    again = sum(line.is_repeat for line in lines)
    detail = f"{len(kills)} seeds, {amid} of them during sending: {result.n:,} phones alerted, {again} alerts repeated"
    return replace(result, detail=detail) if result.ok else result


def differences(expected: ExpectedAlerts, lines: Sequence[ArrivedAlert]) -> Iterator[str]:
    """Require one alert per expected phone. Repeats must be the very same alert."""
    here = _of(expected, lines)
    times = Counter(line.member for line in here if not line.is_repeat)
    missing = [member for member in expected.due if member not in times]
    yield from (f"{expected.burst.key}: u{member} got no alert" for member in missing)
    yield from (f"{expected.burst.key}: u{member} got {n} different alerts" for member, n in times.items() if n > 1)
    strange = [line.address for line in here if line.member not in expected.due]
    yield from (f"{expected.burst.key}: {to} got an unexpected alert" for to in strange)


def _of(expected: ExpectedAlerts, lines: Sequence[ArrivedAlert]) -> Sequence[ArrivedAlert]:
    return [line for line in lines if line.collapse_id == expected.place]
