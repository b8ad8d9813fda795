"""Check run: loads a world, sends a storm of mentions, injects faults, checks the result."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.config import Settings
from notifier.devkit.check.check_alerts import AlertGuarantees, read_alerts
from notifier.devkit.check.check_inboxes import InboxCheck, InboxObserver
from notifier.devkit.check.check_store import StoreCheck, poll_drained
from notifier.devkit.check.delivery_latency import latency_findings, vip_push_finding
from notifier.devkit.check.expected_result import ExpectedResult, max_fanouts_per_minute
from notifier.devkit.check.fault_injection import (
    INJECTIONS_PER_KIND,
    MAX_OUTAGE_START_SHARE,
    OUTAGE_SECONDS,
    STORE_OUTAGE,
    FaultInjector,
    ScheduledFault,
    proxied_engines,
    schedule,
)
from notifier.devkit.check.finding_and_quantiles import Finding, at_most, no_errors
from notifier.devkit.check.mention_storm import WARM_UP_SECONDS, SentEvents, Storm, Tweet, tweets, warm_up_tweets
from notifier.devkit.check.notifier_and_engine_processes import Engines, Instance, engines, migrate_patiently
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture import sample_users_and_devices as fixture_users
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_loader_and_markers import NO_ROLL_UP, WorldLoader, write_world_marker
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.errors import Unavailable
from notifier.domain.ids import POLICIES, Kind, Platform, UserId
from notifier.ports.all_ports import Ports
from notifier.profiles import Profile, choose

MENTIONS_PER_SECOND = 20.0
"""Rate of a storm without faults. A storm that would last longer than MAX_STORM_SECONDS has a higher rate instead."""
MAX_STORM_SECONDS = 25.0
"""Longest storm without faults."""
DRAIN_TIMEOUT_SECONDS = 300.0
"""Time limit of deliveries. A slice that was lost with its worker is reissued within a minute."""
TOKEN_LIFETIME = timedelta(hours=1)
STORM_AFTER_OUTAGE_SECONDS = 5.0
"""Time that a storm gets for each store outage, besides the outage itself."""
MAX_READ_DEAD_LETTERS = 100
NEVER = datetime.max.replace(tzinfo=UTC)
LONG_COLLAPSE_SECONDS = 30.0
MAX_STORM_FANOUTS = 3
"""Limit of fan-outs per minute and subject, with a collapse window of at least LONG_COLLAPSE_SECONDS."""
Report = Callable[[str], None]

MENTION_POLICY = POLICIES[Kind.MENTION]
NO_DORMANT_FOLLOWERS = Finding(
    name="dormant_by_pull",
    ok=True,
    value=0,
    limit=0,
    unit="wrong",
    n=0,
    detail="The first celebrity has no dormant follower.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """Parameters of a check run."""

    data: Path
    world: World
    mentions: int
    threshold: int
    """Followers from which a burst is in the celebrity lane."""
    collapse: float | None
    """Collapse window in seconds. None: the policy of each subject."""
    seed: int
    profile: str = "embedded"
    faults: Sequence[str] = ()
    outage: float = OUTAGE_SECONDS
    """Duration of each store outage in seconds."""
    min_bursts: int = 0
    """Minimum number of bursts in the check of the lanes. Above 0, that check also requires a standard-lane burst."""

    @property
    def duration(self) -> float:
        """Duration of the storm in seconds."""
        without_faults = min(MAX_STORM_SECONDS, self.mentions / MENTIONS_PER_SECOND)
        for_outages = (
            INJECTIONS_PER_KIND * (self.outage / (1 - MAX_OUTAGE_START_SHARE) + STORM_AFTER_OUTAGE_SECONDS)
            if STORE_OUTAGE in self.faults
            else 0.0
        )
        return max(without_faults, for_outages, 4.0 + 2.0 * len(self.faults)) if self.faults else without_faults

    @property
    def collapsing_celebrities(self) -> Sequence[UserId]:
        """Celebrities with so many followers that collapsing stays on even if the plan turns it off."""
        if self.collapse != 0:
            return ()
        return [name for name, size in self.follower_counts.items() if size > MENTION_POLICY.max_small_followers]

    def collapse_seconds(self, mentioned: Iterable[Collection[UserId]]) -> float:
        """Return the longest collapse window of these mentions in seconds, while no fan-out budget is empty."""
        collapsing = set(self.collapsing_celebrities)
        if self.collapse is None or any(collapsing.intersection(names) for names in mentioned):
            return MENTION_POLICY.collapse.total_seconds()
        return self.collapse

    @property
    def max_fanouts(self) -> int:
        """Limit of fan-outs per minute and subject, for a check with collapsing.

        With a window of less than LONG_COLLAPSE_SECONDS, the fan-out budget limits large celebrities to its capacity
        and one token that it may gain meanwhile. Small celebrities have no budget, and open a burst per window.
        """
        if not self.collapse or self.collapse >= LONG_COLLAPSE_SECONDS:
            return MAX_STORM_FANOUTS
        small_limit, large_limit = int(60 // self.collapse) + 1, MENTION_POLICY.budget_capacity + 1
        has_small = any(size <= MENTION_POLICY.max_small_followers for size in self.follower_counts.values())
        return max(small_limit, large_limit) if has_small else large_limit

    @property
    def follower_counts(self) -> Mapping[UserId, int]:
        return {name: self.world.follower_count(number) for name, number in self.world.celebrity_numbers.items()}

    def environment(self) -> dict[str, str]:
        variables = {**NO_ROLL_UP, "NOTIFIER_PROFILE": self.profile, "NOTIFIER_THRESHOLD": str(self.threshold)}
        variables["NOTIFIER_PUSH_FAKES"] = "on"  # the devices are fictitious: never contact a real provider
        # The check reads the output of its own fakes, so ignore fakes that the environment names.
        variables |= {f"NOTIFIER_PUSH_{platform.upper()}_FAKE": "" for platform in Platform}
        return variables | ({} if self.collapse is None else {"NOTIFIER_COLLAPSE": f"PT{self.collapse:f}S"})

    def settings(self) -> Settings:
        return Settings.read(data=self.data, profile=self.profile, threshold=self.threshold)

    @property
    def alert_guarantees(self) -> AlertGuarantees:
        """Guarantees for alerts. Caps are not exact if Redis, which counts them, loses data."""
        caps_are_exact = not any("valkey" in fault for fault in self.faults)
        return AlertGuarantees(
            hourly_cap=self.settings().push.hourly, forbids_repeats=not self.faults, caps_are_exact=caps_are_exact
        )

    @property
    def sync(self) -> Sync:
        """Commit log mode of Cassandra. A single node that is killed must keep all acknowledged writes."""
        return Sync.BATCH if {"kill-cassandra", STORE_OUTAGE} & set(self.faults) else Sync.PERIODIC


@dataclass(slots=True, kw_only=True)
class CheckRun:
    plan: CheckPlan
    profile: Profile
    ports: Ports
    instance: Instance
    storm: Storm
    report: Report
    engines: Engines | None
    """Engines that this run has started. None in the embedded profile, and if the settings name external engines."""
    observer: InboxObserver
    injected: list[str] = field(default_factory=list)
    failed_faults: list[str] = field(default_factory=list)
    storm_started_at: datetime = NEVER

    def burst_progress(self) -> list[BurstProgress]:
        return list(self.ports.store_scan.burst_progress())

    def run(self) -> list[Finding]:
        """Run the check and return its results. Afterwards the instance has stopped, and the engines still run."""
        if collapsing := self.plan.collapsing_celebrities:
            limit, window = MENTION_POLICY.max_small_followers, MENTION_POLICY.collapse.total_seconds()
            self.report(
                f"note: a collapse of 0 doesn't apply to {', '.join(collapsing)}, with more than {limit:,} followers: "
                f"their window is {window:.0f} s or more"
            )
        self.report("loading users")
        write_world_marker(self.plan.data, self.plan.world)
        WorldLoader.into(self.ports)(self.plan.world)
        self.report("starting")
        with self.instance:
            if timeouts := self._warm_up():
                return timeouts  # the storm would not be delivered either
            self._send_storm()
            self.report("waiting until everything is delivered")
            timeouts = self._drain()
            self.report("comparing rows, audience snapshots, ledger and inboxes with the formulas")
            return [*self._check(), *timeouts]

    def _warm_up(self) -> list[Finding]:
        """Send some mentions to warm up the engines. Return a finding if delivery takes too long.

        Engines are slow after their start, which would distort latencies. A run with faults needs no warm-up, because
        its latencies have no limits.
        """
        plan = self.plan
        if plan.profile == "embedded" or plan.faults or not (warm_up := warm_up_tweets(plan.world, plan.seed)):
            return []
        self.report(f"warming up: {len(warm_up)} mentions in {WARM_UP_SECONDS:.0f} s")
        sent = replace(self.storm, tweets=warm_up, duration=WARM_UP_SECONDS, sent=SentEvents())()
        self.storm.sent.accepted += sent.accepted
        self.storm.sent.refused += sent.refused
        timeouts = self._drain()
        # Wait for the collapse windows, or the storm would join the bursts of the warm-up.
        if seconds := plan.collapse_seconds(tweet.mentioned for tweet in warm_up):
            self.report("waiting until the collapse windows of the warm-up end")
            time.sleep(seconds)
        return timeouts

    def _send_storm(self) -> None:
        duration, injector = self.plan.duration, self._fault_injector()
        self.report(f"storm: {self.plan.mentions:,} mentions in {duration:.0f} s")
        self.storm_started_at = self.ports.clock.now()
        injecting = injector.start()
        self.storm()
        injecting.join()  # no timeout: each fault ends by itself
        self.injected, self.failed_faults = injector.injected, injector.failed

    def _fault_injector(self) -> FaultInjector:
        faults: Sequence[ScheduledFault] = schedule(self.plan.faults, self.plan.seed, self.plan.duration)
        return FaultInjector(
            instance=self.instance,
            redis_url=self.profile.redis_url,
            faults=faults,
            engines=self.engines,
            outage=self.plan.outage,
            before_outage=self.observer.open_all,
            during_outage=self.observer,
        )

    def _drain(self) -> list[Finding]:
        """Wait until everything is delivered. Return a finding if that takes too long."""
        unplanned = {tweet.id: tweet for tweet in self.storm.sent.accepted}
        deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with suppress(Unavailable):
                if poll_drained(self.ports.ledger, self.ports.deferred_bursts, self.ports.bursts, unplanned):
                    return []
            time.sleep(0.1)
        unfinished = self.ports.ledger.unfinished_bursts()
        detail = f"{len(unplanned)} events that may not be planned, {len(unfinished)} unfinished bursts"
        return [Finding(name="drained", ok=False, value=DRAIN_TIMEOUT_SECONDS, unit="s", detail=detail)]

    def _check(self) -> Iterator[Finding]:
        store_check = StoreCheck(store_scan=self.ports.store_scan, bursts_port=self.ports.bursts, world=self.plan.world)
        truth, sent = store_check.truth(self.storm.sent.accepted), self.storm.sent
        yield store_check.nothing_lost(truth, sent.refused)
        yield store_check.rows_equal_oracle(truth)
        alerts = list(read_alerts([self.plan.data / "alerts.ndjson"]))
        yield store_check.alerts_equal_oracle(alerts, self.plan.alert_guarantees)
        yield store_check.totals_balance(truth)
        yield from self._check_inboxes(store_check, truth)
        if any(size >= self.plan.threshold for size in self.plan.follower_counts.values()):
            yield store_check.lanes(truth, self.plan.threshold, self.plan.min_bursts)
        if self.plan.collapse == 0:
            yield store_check.distinct_rows(truth)
        else:
            fanouts = max_fanouts_per_minute(truth.bursts.values())
            yield at_most("storm_fanouts", fanouts, self.plan.max_fanouts, unit="fan-outs/min", n=len(sent.accepted))
        # With faults latencies are informational: a killed process needs some seconds to restart.
        has_limits = not self.plan.faults
        yield from latency_findings(
            self.burst_progress(),
            sent,
            self.plan.world,
            since=self.storm_started_at,
            has_limits=has_limits,
            engines_on_this_machine=self.engines is not None,
        )
        yield vip_push_finding(store_check.alerts, alerts, since=self.storm_started_at, has_limit=has_limits)
        yield from self._check_faults()

    def _check_inboxes(self, store_check: StoreCheck, truth: ExpectedResult) -> Iterator[Finding]:
        """Check inboxes and badges, mark items, restart the instance, and check again."""
        viewers = fixture_users.sample(self.plan.world, self.plan.seed)
        inboxes = InboxCheck(url=self.instance.url, token=self.observer.token, users=viewers)
        inboxes.open_all()
        first, wrong, wrong_badges = inboxes.observed, list(inboxes.differences(truth, {})), inboxes.wrong_badges()
        duplicates = inboxes.duplicates() + store_check.duplicates()
        dormant = (
            inboxes.dormant_by_pull(truth)
            if fixture_users.has_dormant_follower(self.plan.world)
            else NO_DORMANT_FOLLOWERS
        )
        items = sum(len(inbox.items) for inbox in first.values())
        yield no_errors("inboxes_equal_oracle", wrong, n=items)
        yield no_errors("shown_once", duplicates, n=items)
        yield dormant
        wrong, hidden = inboxes.mark_some(), inboxes.hidden(first)
        inboxes.open_all()
        before = inboxes.observed
        yield no_errors("badge_equals_list", wrong_badges + wrong + inboxes.wrong_badges(), n=2 * len(viewers))
        self.report("restarting and comparing again")
        self.instance.stop()
        self.instance.start()
        inboxes.url = self.instance.url
        inboxes.open_all()
        changed = [
            f"{user} sees a different inbox after the restart"
            for user in before
            if before[user].stable_parts() != inboxes.observed[user].stable_parts()
        ]
        yield no_errors(
            "restart_remembers",
            [*changed, *inboxes.differences(truth, hidden), *inboxes.wrong_badges()],
            n=len(viewers),
        )

    def _check_faults(self) -> Iterator[Finding]:
        if self.plan.faults:
            letters, n = self.ports.dead_letters.list(MAX_READ_DEAD_LETTERS), len(self.storm.sent.accepted)
            yield no_errors("no_dead_letters", [f"{letter.stage}: {letter.cause}" for letter in letters], n=n)
            if STORE_OUTAGE in self.plan.faults:
                yield self.observer.finding()
            yield Finding(
                name="faults_injected",
                ok=not self.failed_faults and bool(self.injected),
                value=len(self.injected),
                unit="faults",
                detail="; ".join(self.failed_faults or self.injected),
            )


@contextmanager
def prepared_run(plan: CheckPlan, report: Report = lambda _: None) -> Iterator[CheckRun]:
    """Prepare a check run with its engines and migrated stores. The engines stop when the block ends."""
    plan.data.mkdir(parents=True, exist_ok=True)
    running = engines(plan.data, plan.profile, plan.sync, proxied=proxied_engines(plan.faults))
    with running as own_engines, closing(choose(plan.settings())) as profile:
        migrate_patiently(profile)
        storm_tweets: Sequence[Tweet] = tweets(plan.world, plan.mentions, plan.seed)
        instance = Instance(data=plan.data, environment=plan.environment())
        batch_size = max(5, plan.mentions // 500)
        ports = profile.ports()
        yield CheckRun(
            plan=plan,
            profile=profile,
            ports=ports,
            instance=instance,
            storm=Storm(instance=instance, tweets=storm_tweets, duration=plan.duration, batch_size=batch_size),
            report=report,
            engines=own_engines,
            observer=_observer(plan, instance, ports.clock.now()),
        )


def _observer(plan: CheckPlan, instance: Instance, now: datetime) -> InboxObserver:
    keys = installation_keys(plan.settings())
    viewers = fixture_users.sample(plan.world, plan.seed)
    return InboxObserver(
        instance=instance,
        token=lambda user: issue_token(keys, user, now, TOKEN_LIFETIME),
        users=viewers,
        api_is_killed="kill-api" in plan.faults,
    )
