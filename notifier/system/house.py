"""The house: what all stages of a process share."""

from dataclasses import dataclass, field
from datetime import timedelta

from notifier.config import Settings
from notifier.domain.audience.tiers import TierRule
from notifier.flow.indexing.tier_rule import tier_rule
from notifier.flow.lane_guard import LaneGuards
from notifier.flow.leadership import Leadership
from notifier.flow.sequencing.live_publisher import Voice
from notifier.ports.all_ports import Ports
from notifier.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The rooms are classes of it without anything of their own, and a System has all of them."""

    ports: Ports
    settings: Settings
    metrics: Metrics
    owner: str
    """This process, by a name that no other has."""
    voice: Voice = field(init=False)
    """Of all coordinators of the process."""
    rule: TierRule = field(init=False)
    """Of all who divide an audience."""

    def __post_init__(self) -> None:
        """Raises BadSetting for a rule of tiers that isn't one."""
        object.__setattr__(self, "rule", tier_rule(self.settings.tier_rule))
        object.__setattr__(self, "voice", Voice(bus=self.ports.bus))

    def lane_guards(self) -> LaneGuards:
        """The dead-letter limit of the lanes that one loop or worker handles."""
        p = self.ports
        return LaneGuards(
            limit=self.settings.dead_letters.limit,
            tallies=p.lane_tallies,
            clock=p.clock,
            metrics=self.metrics,
            owner=self.owner,
        )

    def leadership(self, name: str, term: timedelta) -> Leadership:
        return Leadership(leases=self.ports.leases, name=name, owner=self.owner, term=term)
