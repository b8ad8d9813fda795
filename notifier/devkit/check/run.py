"""Check run: loads a world, sends a storm of mentions, injects faults, checks the result."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from notifier.api.auth.identity import issue
from notifier.api.auth.service_keys import keys_of
from notifier.config import Settings
from notifier.devkit.check.check_alerts import Promised, rang
from notifier.devkit.check.check_inboxes import Tabs
from notifier.devkit.check.check_store import Outside, drained
from notifier.devkit.check.expected import Truth, fanouts_a_minute
from notifier.devkit.check.faults import (
    EARLY,
    OUTAGE,
    STORE_OUTAGE,
    TIMES,
    InjectedFault,
    Onlooker,
    Saboteur,
    proxied,
    schedule,
)
from notifier.devkit.check.finding import Finding, agreement, at_most
from notifier.devkit.check.instance import Engines, Instance, engines, migrate_patiently
from notifier.devkit.check.latency_report import times, vip_push
from notifier.devkit.check.traffic import REHEARSED_FOR, SentEvents, Storm, Tweet, rehearsal, tweets
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture import users as people
from notifier.devkit.fixture.load import STANDS_STILL, Load, claim
from notifier.devkit.fixture.world import World
from notifier.domain.delivery.ledger import BurstProgress
from notifier.domain.errors import Unavailable
from notifier.domain.ids import POLICIES, Kind, Platform, UserId
from notifier.ports.all_ports import Ports
from notifier.profiles import Profile, choose

PACE = 20.0
"""Mentions per second. The rate is higher if the storm would last longer than LONGEST."""
LONGEST = 25.0
DRAINED_WITHIN = 300.0
"""Seconds after the storm. A slice that was lost with its worker is reissued within a minute."""
TOKENS_LAST = timedelta(hours=1)
AFTER_OUTAGE = 5.0
"""Seconds for which the storm continues after a store outage."""
LETTERS_SHOWN = 100
NEVER = datetime.max.replace(tzinfo=UTC)
STORM_FANOUTS = 3
Tell = Callable[[str], None]

MENTION = POLICIES[Kind.MENTION]
NOBODY_DORMANT = Finding(
    name="dormant_by_pull", ok=True, value=0, limit=0, unit="wrong", n=0, detail="Nobody is dormant in this world."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """Parameters of a check run."""

    data: Path
    world: World
    mentions: int
    threshold: int
    collapse: float | None
    """Collapse window in seconds. None: the policy of each subject."""
    seed: int
    profile: str = "embedded"
    faults: Sequence[str] = ()
    outage: float = OUTAGE
    """Duration of each store outage in seconds."""
    least_bursts: int = 0

    @property
    def lasting(self) -> float:
        """Duration of the storm in seconds. With faults it is long enough for all of them."""
        calm = min(LONGEST, self.mentions / PACE)
        through = TIMES * (self.outage / (1 - EARLY) + AFTER_OUTAGE) if STORE_OUTAGE in self.faults else 0.0
        return max(calm, through, 4.0 + 2.0 * len(self.faults)) if self.faults else calm

    @property
    def unheard(self) -> Sequence[UserId]:
        """Celebrities with too many followers to disable collapsing: they would need too many fan-outs."""
        if self.collapse != 0:
            return ()
        sizes = {name: self.world.size(star) for name, star in self.world.stars.items()}
        return [name for name, size in sizes.items() if size > MENTION.collapse_off_limit]

    def environment(self) -> dict[str, str]:
        variables = {**STANDS_STILL, "NOTIFIER_PROFILE": self.profile, "NOTIFIER_THRESHOLD": str(self.threshold)}
        variables["NOTIFIER_PUSH_FAKES"] = "on"  # the devices are fictitious: never contact a real provider
        # The check reads the output of its own fakes, so ignore fakes that the environment names.
        variables |= {f"NOTIFIER_PUSH_{platform.upper()}_FAKE": "" for platform in Platform}
        return variables | ({} if self.collapse is None else {"NOTIFIER_COLLAPSE": f"PT{self.collapse:f}S"})

    def settings(self) -> Settings:
        return Settings.read(data=self.data, profile=self.profile, threshold=self.threshold)

    @property
    def promised(self) -> Promised:
        """Guarantees for alerts. Redis counts the caps, so they are not exact if it loses data."""
        counted = not any("valkey" in fault for fault in self.faults)
        return Promised(caps=self.settings().push.hourly, once=not self.faults, counted=counted)

    @property
    def sync(self) -> Sync:
        """Commit log mode of Cassandra. A single node that is killed must keep all acknowledged writes."""
        return Sync.BATCH if {"kill-cassandra", STORE_OUTAGE} & set(self.faults) else Sync.PERIODIC


@dataclass(slots=True, kw_only=True)
class CheckRun:
    script: CheckPlan
    profile: Profile
    ports: Ports
    instance: Instance
    storm: Storm
    tell: Tell
    engines: Engines | None
    """Engines of this run. None if they are external or embedded."""
    onlooker: Onlooker
    struck: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    began: datetime = NEVER
    """Start of the storm."""

    def accounts(self) -> list[BurstProgress]:
        return list(self.ports.archive.accounts())

    def run(self) -> list[Finding]:
        """Run the check and return its results. All started processes have ended when it returns or raises."""
        if unheard := self.script.unheard:
            most, least = MENTION.collapse_off_limit, MENTION.collapse.total_seconds()
            self.tell(
                f"note: a collapse of 0 isn't heard for {', '.join(unheard)}, with more than {most:,} followers: "
                f"their window is {least:.0f} s or more"
            )
        self.tell("loading the world")
        claim(self.script.data, self.script.world)
        Load.into(self.ports)(self.script.world)
        self.tell("starting")
        with self.instance:
            slow = self._rehearse()
            self._rage()
            self.tell("waiting until everything is delivered")
            slow += self._drain()
            self.tell("comparing rows, seals, ledger and tabs with the formulas")
            return [*self._judge(), *slow]

    def _rehearse(self) -> list[Finding]:
        """Send some mentions to warm up the engines, if latencies have limits. Return a finding if it takes too long.

        Engines that just started are slow at first, which is not typical of a running service.
        """
        script = self.script
        if script.profile == "embedded" or script.faults or not (written := rehearsal(script.world, script.seed)):
            return []
        self.tell(f"rehearsing: {len(written)} mentions in {REHEARSED_FOR:.0f} s")
        sent = replace(self.storm, tweets=written, lasting=REHEARSED_FOR, sent=SentEvents())()
        self.storm.sent.accepted += sent.accepted
        self.storm.sent.refused += sent.refused
        slow = self._drain()
        # Wait for the collapse windows, or the storm would join the bursts of the warm-up.
        self.tell("waiting until its windows are over")
        time.sleep(self._window())
        return slow

    def _window(self) -> float:
        collapse = self.script.collapse
        return MENTION.collapse.total_seconds() if collapse is None else collapse

    def _rage(self) -> None:
        lasting, saboteur = self.script.lasting, self._saboteur()
        self.tell(f"storm: {self.script.mentions:,} mentions in {lasting:.0f} s")
        self.began = self.ports.clock.now()
        raging = saboteur.start()
        self.storm()
        raging.join()  # no timeout: each fault ends by itself
        self.struck, self.missed = saboteur.done, saboteur.failed

    def _saboteur(self) -> Saboteur:
        faults: Sequence[InjectedFault] = schedule(self.script.faults, self.script.seed, self.script.lasting)
        return Saboteur(
            instance=self.instance,
            redis_url=self.profile.redis_url,
            faults=faults,
            engines=self.engines,
            outage=self.script.outage,
            before=self.onlooker.everybody,
            during=self.onlooker,
        )

    def _drain(self) -> list[Finding]:
        """Wait until everything is delivered. Return a finding if it takes too long."""
        waiting = {tweet.id: tweet for tweet in self.storm.sent.accepted}
        deadline = time.monotonic() + DRAINED_WITHIN
        while time.monotonic() < deadline:
            with suppress(Unavailable):
                if drained(self.ports.ledger, self.ports.sleepers, self.ports.bursts, waiting):
                    return []
            time.sleep(0.1)
        detail = f"{len(waiting)} events without their bursts, {len(self.ports.ledger.open())} bursts with work left"
        return [Finding(name="drained", ok=False, value=DRAINED_WITHIN, unit="s", detail=detail)]

    def _judge(self) -> Iterator[Finding]:
        outside = Outside(archive=self.ports.archive, outcomes=self.ports.bursts, world=self.script.world)
        truth, sent = outside.truth(self.storm.sent.accepted), self.storm.sent
        yield outside.nothing_lost(truth, sent.refused)
        yield outside.rows_equal_oracle(truth)
        alerts = list(rang([self.script.data / "alerts.ndjson"]))
        yield outside.alerts_equal_oracle(alerts, self.script.promised)
        yield outside.books_balance(truth)
        yield from self._judge_tabs(outside, truth)
        if any(self.script.world.size(star) >= self.script.threshold for star in range(self.script.world.celebrities)):
            yield outside.lanes(truth, self.script.threshold, self.script.least_bursts)
        if self.script.collapse == 0:
            yield outside.distinct_rows(truth)
        else:
            fanouts = fanouts_a_minute(truth.bursts.values())
            yield at_most("storm_fanouts", fanouts, self._most_fanouts(), unit="fan-outs/min", n=len(sent.accepted))
        # With faults latencies are informational: a killed process needs some seconds to restart.
        judged = not self.script.faults
        yield from times(
            self.accounts(), sent, self.script.world, since=self.began, judged=judged, shared=self.engines is not None
        )
        yield vip_push(outside.alerts, alerts, since=self.began, judged=judged)
        yield from self._judge_faults()

    def _judge_tabs(self, outside: Outside, truth: Truth) -> Iterator[Finding]:
        """Check inboxes before and after marking items, and again after a restart, which must not change them."""
        viewers = people.sample(self.script.world, self.script.seed)
        tabs = Tabs(url=self.instance.url, token=self.onlooker.token, people=viewers)
        tabs.look()
        first, wrong, badges = tabs.shown, list(tabs.differences(truth, {})), tabs.badges()
        twice = tabs.twice() + outside.twice()
        dormant = tabs.dormant_by_pull(truth) if people.any_dormant(self.script.world) else NOBODY_DORMANT
        items = sum(len(shown.items) for shown in first.values())
        yield agreement("tabs_equal_oracle", wrong, n=items)
        yield agreement("shown_once", twice, n=items)
        yield dormant
        wrong, hidden = tabs.see_some(), tabs.hidden(first)
        tabs.look()
        before = tabs.shown
        yield agreement("badge_equals_list", badges + wrong + tabs.badges(), n=2 * len(viewers))
        self.tell("stopping, starting again and looking again")
        self.instance.stop()
        self.instance.start()
        tabs.url = self.instance.url
        tabs.look()
        forgotten = [
            f"{user} sees something else" for user in before if before[user].facts() != tabs.shown[user].facts()
        ]
        yield agreement(
            "restart_remembers", [*forgotten, *tabs.differences(truth, hidden), *tabs.badges()], n=len(viewers)
        )

    def _most_fanouts(self) -> int:
        """Return the limit of fan-outs per minute. With a short collapse window only the fan-out budget bounds it."""
        return STORM_FANOUTS if self.script.collapse is None or self.script.collapse >= 30 else 6 + 1

    def _judge_faults(self) -> Iterator[Finding]:
        if self.script.faults:
            letters, n = self.ports.dead_letters.list(LETTERS_SHOWN), len(self.storm.sent.accepted)
            yield agreement("no_dead_letters", [f"{letter.stage}: {letter.cause}" for letter in letters], n=n)
            if STORE_OUTAGE in self.script.faults:
                yield self.onlooker.finding()
            yield Finding(
                name="faults_struck",
                ok=not self.missed and bool(self.struck),
                value=len(self.struck),
                unit="faults",
                detail="; ".join(self.missed or self.struck),
            )


@contextmanager
def trial(script: CheckPlan, tell: Tell = lambda _: None) -> Iterator[CheckRun]:
    script.data.mkdir(parents=True, exist_ok=True)
    """Prepare a check run with its engines and migrated stores. The engines stop when the block ends."""
    running = engines(script.data, script.profile, script.sync, proxied=proxied(script.faults))
    with running as own_engines, closing(choose(script.settings())) as profile:
        migrate_patiently(profile)
        written: Sequence[Tweet] = tweets(script.world, script.mentions, script.seed)
        instance = Instance(data=script.data, environment=script.environment())
        batch = max(5, script.mentions // 500)
        ports = profile.ports()
        yield CheckRun(
            script=script,
            profile=profile,
            ports=ports,
            instance=instance,
            storm=Storm(instance=instance, tweets=written, lasting=script.lasting, batch=batch),
            tell=tell,
            engines=own_engines,
            onlooker=_onlooker(script, instance, ports.clock.now()),
        )


def _onlooker(script: CheckPlan, instance: Instance, now: datetime) -> Onlooker:
    keys = keys_of(script.settings())
    viewers = people.sample(script.world, script.seed)
    return Onlooker(
        instance=instance,
        token=lambda user: issue(keys, user, now, TOKENS_LAST),
        people=viewers,
        killed="kill-api" in script.faults,
    )
