"""Alert check: compares the alerts that fake providers received with the oracle."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.fake_providers.fake_devices import member_of
from notifier.devkit.fixture.sample_users_and_devices import platform
from notifier.devkit.fixture.world import Flags
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.snapshot import DEFAULT_PUSHED_TIERS
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import BurstKey, Member
from notifier.domain.push.alert import burst_alert


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedAlert:
    """One line of a fake provider's output: an alert that arrived on a device."""

    at: datetime
    platform: str
    address: str
    collapse_id: str
    """A later alert with the same collapse id replaces this alert on the device."""
    is_repeat: bool = False
    """Whether the same alert had already arrived on the device."""

    @property
    def member(self) -> Member | None:
        return member_of(self.address)


def read_alerts(files: Iterable[Path]) -> Iterator[ArrivedAlert]:
    """Yield the alerts of all complete lines.

    A fake that was killed while it wrote a line has not acknowledged that alert, so the alert is sent again.
    """
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                with suppress(ValueError):
                    row = json.loads(line)
                    at = datetime.fromisoformat(row["at"])
                    yield ArrivedAlert(
                        at=at,
                        platform=row["platform"],
                        address=row["to"],
                        collapse_id=row["place"],
                        is_repeat=row["again"],
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGuarantees:
    """Guarantees to check besides the recipients."""

    hourly_cap: int | None = None
    """Maximum bursts per user and hour that cause alerts; 0 means no limit.

    None disables this rule and the rule that a user gets at most one alert per tweet.
    """
    forbids_repeats: bool = True
    """Whether an alert that arrives twice is an error."""
    caps_are_exact: bool = True
    """Whether exceeding a cap is an error. False if Redis may lose the counters of the caps during the storm."""


AlertCounts = Mapping[Member, Mapping[BurstKey, int]]


@dataclass(slots=True, kw_only=True)
class ExpectedAlerts:
    """Expected alerts of the bursts, filled shard by shard by `expect`."""

    expected: dict[BurstKey, dict[tuple[Tier, int], frozenset[Member]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Members to alert, by burst, and then by tier and shard."""
    bursts: dict[str, Burst] = field(default_factory=dict)
    """Bursts by the collapse id of their alerts."""

    def expect(self, burst: Burst, shard: int, tiers: Mapping[Tier, Flags], with_device: Flags) -> None:
        self.bursts[burst_alert(burst).collapse_id] = burst
        for tier in DEFAULT_PUSHED_TIERS if burst.verdict is Verdict.ALL else ():
            alerted = np.flatnonzero(tiers[tier] & with_device) + shard * SHARD_MEMBERS
            if len(alerted):
                self.expected[burst.key][tier, shard] = frozenset(map(Member, alerted.tolist()))

    def finding(
        self, arrived: Collection[ArrivedAlert], progress_rows: Iterable[BurstProgress], guarantees: AlertGuarantees
    ) -> Finding:
        counts = self._count(arrived)
        wrong = [
            *self._unexpected(arrived),
            *self._missing(counts, progress_rows, guarantees.hourly_cap),
            *(
                self._over_cap(counts, guarantees.hourly_cap)
                if guarantees.hourly_cap is not None and guarantees.caps_are_exact
                else ()
            ),
        ]
        expected_count = sum(len(members) for by_shard in self.expected.values() for members in by_shard.values())
        repeated = sum(count - 1 for bursts in counts.values() for count in bursts.values())
        if repeated and guarantees.forbids_repeats:
            wrong.append(f"{repeated} alerts were repeated, although no process was killed")
        result = no_errors("alerts_equal_oracle", wrong, n=expected_count)
        if not result.ok:
            return result
        detail = f"{len(arrived):,} alerts on {len(counts):,} devices, {repeated} of them repeated"
        return Finding(name=result.name, ok=True, value=0, limit=0, unit=result.unit, n=result.n, detail=detail)

    def vip_members(self, since: datetime) -> Mapping[str, frozenset[Member]]:
        """Return the members to alert in P0 by collapse id, for all bursts accepted from `since` on."""
        bursts = {collapse_id: burst for collapse_id, burst in self.bursts.items() if burst.accepted_at >= since}
        return {collapse_id: self._expected_members(burst.key, [Tier.P0]) for collapse_id, burst in bursts.items()}

    def vip_latencies(self, arrived: Iterable[ArrivedAlert], since: datetime) -> list[float]:
        """Return the seconds from acceptance of a burst's first event to a VIP's alert, for each alerted VIP and burst.

        If an alert was repeated, the first arrival counts.
        """
        vip_members, latencies = self.vip_members(since), dict[tuple[str, Member], float]()
        for alert in sorted(arrived, key=lambda arrival: arrival.at):
            member = alert.member
            if member is not None and member in vip_members.get(alert.collapse_id, ()):
                latency = (alert.at - self.bursts[alert.collapse_id].accepted_at).total_seconds()
                latencies.setdefault((alert.collapse_id, member), latency)
        return list(latencies.values())

    def _expected_members(self, burst: BurstKey, tiers: Collection[Tier]) -> frozenset[Member]:
        by_shard = self.expected.get(burst, {})
        return frozenset[Member]().union(*(members for (tier, _), members in by_shard.items() if tier in tiers))

    def _count(self, arrived: Iterable[ArrivedAlert]) -> AlertCounts:
        counts: dict[Member, Counter[BurstKey]] = defaultdict(Counter)
        for alert in arrived:
            burst, member = self.bursts.get(alert.collapse_id), alert.member
            if burst is not None and member is not None:
                counts[member][burst.key] += 1
        return counts

    def _unexpected(self, arrived: Iterable[ArrivedAlert]) -> Iterator[str]:
        expected = {key: self._expected_members(key, DEFAULT_PUSHED_TIERS) for key in self.expected}
        for alert in arrived:
            burst, member = self.bursts.get(alert.collapse_id), alert.member
            if burst is None:
                yield f"{alert.address} got an alert for {alert.collapse_id}, which belongs to no burst"
            elif member is None or member not in expected.get(burst.key, ()):
                yield f"{burst.key}: {alert.address} got an unexpected alert"
            elif alert.platform != platform(member):
                yield f"{burst.key}: {alert.address} got an alert from the wrong provider, {alert.platform}"

    def _missing(
        self, counts: AlertCounts, progress_rows: Iterable[BurstProgress], hourly_cap: int | None
    ) -> Iterator[str]:
        tweets = {burst.key: burst.tweet for burst in self.bursts.values()}
        for burst, member in self._due_alerts(progress_rows):
            bursts = counts.get(member, {})
            if burst in bursts:
                continue
            # A follower of two mentioned accounts gets one alert for the tweet. Either account's burst may send it,
            # because push does not process bursts in order.
            alerted_tweets = {tweets[key] for key in bursts}
            if hourly_cap is None or not (tweets[burst] in alerted_tweets or 0 < hourly_cap <= len(alerted_tweets)):
                yield f"{burst}: u{member} got no alert"

    def _due_alerts(self, progress_rows: Iterable[BurstProgress]) -> Iterator[tuple[BurstKey, Member]]:
        for progress in progress_rows:
            by_shard = self.expected.get(progress.plan.burst, {})
            for slice_, state in progress.slice_states.items():
                if slice_.step is not Step.ROWS and state.final_entry and state.final_entry.fact is Fact.DONE:
                    for shard in slice_.shards:
                        due_members = by_shard.get((slice_.tier, shard), ())
                        yield from ((slice_.burst, m) for m in due_members if platform(m) is slice_.step.platform)

    def _over_cap(self, counts: AlertCounts, hourly_cap: int) -> Iterator[str]:
        tweets = {burst.key: burst.tweet for burst in self.bursts.values()}
        for member, bursts in counts.items():
            if hourly_cap and len(bursts) > hourly_cap:
                yield f"u{member} got alerts for {len(bursts)} bursts, more than the cap of {hourly_cap}"
            yield from (
                f"u{member} got {count} alerts for the tweet {tweet}"
                for tweet, count in Counter(tweets[burst] for burst in bursts).items()
                if count > 1
            )
