"""Push limits without Redis: a tenth of the rate, and caps on own alerts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.frequency_cap import Ruling
from notifier.domain.push.rate_limit import MIN_SLOWDOWN, PROVIDER_LIMITS
from notifier.flow.push.frequency_caps import MAX_REMEMBERED_MEMBERS, FrequencyCaps
from notifier.flow.push.rate_limiter import LOCAL_LIMIT_DIVISOR, RateLimiter, Slowdown
from notifier.metrics import Metrics
from tests.support.domain_examples import MINUTE, SECOND, burst
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.fakes.push import MemoryFrequencyCaps, MemoryInboxLatencyReport, MemoryProviderRates
from tests.support.fakes.recent_events_and_load_limits import MemoryBackpressure

ZOE, ADA = Member(1), Member(2)


def tweet_burst(seq: int) -> Burst:
    return replace(burst(seq=seq), tweet=f"t{seq}")


@dataclass(slots=True)
class BreakableProviderRates(MemoryProviderRates):
    unavailable: bool = False

    def draw(self, platform: Platform, wanted: int, *, is_p0: bool, slowdown_factor: float, now: datetime) -> int:
        if self.unavailable:
            raise CacheUnavailable
        return MemoryProviderRates.draw(self, platform, wanted, is_p0=is_p0, slowdown_factor=slowdown_factor, now=now)

    def report_results(self, platform: Platform, *, refused_count: int, is_slow: bool, now: datetime) -> None:
        if self.unavailable:
            raise CacheUnavailable
        MemoryProviderRates.report_results(self, platform, refused_count=refused_count, is_slow=is_slow, now=now)


@dataclass(slots=True)
class BreakableFrequencyCaps(MemoryFrequencyCaps):
    unavailable: bool = False

    def spend(self, burst: BurstKey, tweet: str, people: Sequence[Member], now: datetime) -> Mapping[Member, Ruling]:
        if self.unavailable:
            raise CacheUnavailable
        return MemoryFrequencyCaps.spend(self, burst, tweet, people, now)


@dataclass(slots=True)
class Worker:
    clock: ManualClock = field(default_factory=ManualClock)
    metrics: Metrics = field(default_factory=Metrics)
    provider_rates: BreakableProviderRates = field(default_factory=BreakableProviderRates)
    caps: BreakableFrequencyCaps = field(default_factory=BreakableFrequencyCaps)
    backpressure: MemoryBackpressure = field(init=False)
    rate_limiter: RateLimiter = field(init=False)
    frequency_caps: FrequencyCaps = field(init=False)

    def __post_init__(self) -> None:
        self.backpressure = MemoryBackpressure(self.clock)
        slowdown = Slowdown(
            inbox_latency=MemoryInboxLatencyReport(self.clock), backpressure=self.backpressure, metrics=self.metrics
        )
        self.rate_limiter = RateLimiter(
            platform=Platform.FCM, provider_rates=self.provider_rates, slowdown=slowdown, metrics=self.metrics
        )
        self.frequency_caps = FrequencyCaps(store=self.caps, metrics=self.metrics)

    def drawn(self, seconds: int, tier: Tier = Tier.P1) -> int:
        granted = 0
        for _ in range(20 * seconds):
            granted += self.rate_limiter.draw(tier, 1_000_000, self.clock.now())
            self.clock.advance(SECOND / 20)
        return granted

    @property
    def outages(self) -> float | None:
        return self.metrics.registry.get_sample_value("notifier_outages_total", {"part": "cache"})


def test_ten_workers_without_redis_stay_below_the_rate_limit() -> None:
    worker = Worker()
    worker.provider_rates.unavailable = True
    assert 0 < worker.drawn(120) <= 2 * PROVIDER_LIMITS[Platform.FCM].per_minute // LOCAL_LIMIT_DIVISOR
    assert worker.outages == 20 * 120
    worker.provider_rates.unavailable = False
    assert worker.drawn(1) > 0
    assert worker.outages == 20 * 120


def test_worker_without_redis_slows_down_when_provider_refuses() -> None:
    worker = Worker()
    worker.provider_rates.unavailable = True
    worker.drawn(60)
    before = worker.drawn(1)
    worker.rate_limiter.report_results(worker.clock.now(), refused_count=3, is_slow=False)
    assert worker.drawn(1) < 0.75 * before


def test_urgent_tier_is_slowed_down_less() -> None:
    worker = Worker()
    worker.backpressure.set_level(1.0, MINUTE)
    slow = worker.drawn(1)
    assert slow <= MIN_SLOWDOWN * 2_000
    assert worker.drawn(1, Tier.P0) > 5 * slow


def test_worker_without_redis_applies_caps_to_its_own_alerts() -> None:
    worker = Worker()
    worker.caps.unavailable = True
    repeated = [worker.frequency_caps.spend(tweet_burst(seq), [ZOE], START)[ZOE] for seq in (1, 1)]
    assert repeated == [Ruling.NEW, Ruling.AGAIN]
    rulings = [worker.frequency_caps.spend(tweet_burst(seq), [ZOE, ADA], START) for seq in range(2, 8)]
    assert [ruling[ZOE] for ruling in rulings] == [Ruling.NEW] * 4 + [Ruling.HOURLY] * 2
    assert [ruling[ADA] for ruling in rulings] == [Ruling.NEW] * 5 + [Ruling.HOURLY]
    assert worker.outages == 8
    worker.caps.unavailable = False
    assert worker.frequency_caps.spend(tweet_burst(9), [ZOE], START)[ZOE] is Ruling.NEW


def test_worker_memory_is_bounded_and_keeps_recent_members() -> None:
    worker = Worker()
    worker.caps.unavailable = True
    worker.frequency_caps.spend(tweet_burst(1), [Member(number) for number in range(MAX_REMEMBERED_MEMBERS)], START)
    worker.frequency_caps.spend(tweet_burst(2), [ZOE], START)
    worker.frequency_caps.spend(
        tweet_burst(2), [Member(MAX_REMEMBERED_MEMBERS), Member(MAX_REMEMBERED_MEMBERS + 1)], START
    )
    assert len(worker.frequency_caps.local_histories) == MAX_REMEMBERED_MEMBERS
    assert len(worker.frequency_caps.local_histories[ZOE]) == 2
