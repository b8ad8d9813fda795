"""Compares alerts that arrived at fake providers with the alerts that must have been sent."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fanout.measured_notifier import FanoutStage
from notifier.devkit.check.check_alerts import ArrivedAlert, read_alerts
from notifier.devkit.check.expected_result import ExpectedResult
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, UserId
from notifier.domain.push.alert import burst_alert

POLL_INTERVAL_SECONDS = 0.02
"""Short enough to find a worker during its alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAlerts:
    """A burst, and the members whose phones must get an alert for it."""

    burst: Burst
    due: frozenset[Member]

    @property
    def place(self) -> str:
        return burst_alert(self.burst).collapse_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedAlerts:
    stage: FanoutStage
    tiers: Collection[Tier]

    def mention(self, name: UserId) -> ExpectedAlerts:
        """Send one mention and return its opened burst. Without collapsing each mention opens its own burst."""
        event, _ = self.stage.mention(name)
        key = self.stage.burst_of(event)
        burst = self.stage.ports.bursts.read([key])[key]
        return ExpectedAlerts(burst=burst, due=self._due(burst))

    def lines(self) -> Sequence[ArrivedAlert]:
        file = self.stage.instance.data / "alerts.ndjson"
        return list(read_alerts([file])) if file.exists() else []

    def of(self, expected: ExpectedAlerts) -> Sequence[ArrivedAlert]:
        return [line for line in self.lines() if line.collapse_id == expected.place]

    def people(self, expected: ExpectedAlerts) -> frozenset[Member]:
        """Return the members whose phones got an alert for it."""
        return frozenset(line.member for line in self.of(expected) if line.member is not None)

    def wait(self, condition: Callable[[], bool], within: float, description: str) -> None:
        """Wait until the condition is true. Raises TimeoutError."""
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{description}: not within {within:g} s")
            time.sleep(POLL_INTERVAL_SECONDS)

    def _due(self, burst: Burst) -> frozenset[Member]:
        world = self.stage.world
        truth = ExpectedResult(world=world, mentions=[], bursts={})
        members = set[int]()
        for shard in range(world.shards):
            tiers: Mapping[Tier, np.ndarray[tuple[int], np.dtype[np.bool_]]] = truth.tiers(burst, shard)
            for tier in self.tiers:
                members.update(
                    (np.flatnonzero(tiers[tier] & truth.with_device(shard)) + shard * SHARD_MEMBERS).tolist()
                )
        return frozenset(map(Member, members))
