"""Checks of a data folder or a cluster: schema, cache, unfinished work and processes."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from notifier.cli.commands.doctor.command_machine_and_credential_checks import DoctorFinding, Level
from notifier.cli.running_service import is_alive, read_ready
from notifier.config import Settings
from notifier.domain.audience.activity import ActiveSetFreshness
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.errors import CacheUnavailable, NotifierError, NotRunning, NoValkey
from notifier.flow.dead_letter_lane_stops import stopped_lanes
from notifier.flow.indexing.custom_tier_rule import load_tier_rule
from notifier.flow.operations.overview import active_set_state
from notifier.ports.all_ports import Ports
from notifier.profiles import Profile, choose

MAX_TRIED_BURSTS = 4
"""Maximum number of the newest bursts that the tier rule is tried on."""
MAX_COUNTED = 100
"""Maximum number of dead letters, or of sequence heads, that are counted."""


def embedded_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check the data folder of the embedded profile. Its contents are checked only if its schema is of this version."""
    profile = choose(settings)
    try:
        schema = _run_check("schema", lambda: schema_finding(profile))
        yield schema
        yield running_finding(settings)
        if schema.level is Level.OK:
            yield from _content_findings(profile.ports(), settings)
    finally:
        profile.close()


def cluster_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check the engines of a cluster, and their contents if no engine fails."""
    profile = choose(settings)
    try:
        engines = [
            DoctorFinding(
                name=engine.name,
                level=Level(engine.level),
                detail=engine.detail,
                remedy=engine.remedy,
                value=engine.value,
                limit=engine.limit,
            )
            for engine in profile.inspect()
        ]
        yield from engines
        yield running_finding(settings)
        if all(engine.level is not Level.FAIL for engine in engines):
            yield from _content_findings(profile.ports(), settings)
    finally:
        profile.close()


def _content_findings(ports: Ports, settings: Settings) -> Iterator[DoctorFinding]:
    yield _run_check("cache", lambda: cache_finding(ports))
    yield _run_check("activity", lambda: activity_finding(ports, settings.roll_up_every))
    yield _run_check("heads", lambda: heads_finding(ports))
    yield _run_check("bursts", lambda: bursts_finding(ports))
    yield _run_check("throttles", lambda: throttles_finding(ports))
    yield _run_check("open_circuits", lambda: open_circuits_finding(ports))
    yield _run_check("dead_letters", lambda: dead_letters_finding(ports))
    yield _run_check("stopped_lanes", lambda: stopped_lanes_finding(ports))
    yield _run_check("tier_rule", lambda: tier_rule_finding(ports, settings))


def _run_check(name: str, check: Callable[[], DoctorFinding]) -> DoctorFinding:
    """Run one check. An error becomes a failed finding."""
    try:
        return check()
    except NotifierError as error:
        return DoctorFinding(name=name, level=Level.FAIL, detail=str(error))


def insecure_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Warn if requests without a key are accepted, by the running service or by the current settings."""
    try:
        runs_insecurely = read_ready(settings.data).insecure_dev
    except NotRunning:
        runs_insecurely = False
    if runs_insecurely or settings.insecure_dev:
        yield DoctorFinding(
            name="insecure_dev",
            level=Level.WARN,
            detail="Requests from this machine are accepted without a key, as any service and any user.",
            remedy="Restart without --insecure-dev and NOTIFIER_INSECURE_DEV.",
        )


def services_finding(settings: Settings) -> DoctorFinding:
    """Check whether `up` can start Valkey, or reach the configured Redis. Needs no data folder."""
    profile = choose(settings)
    try:
        profile.require_services()
    except NoValkey as error:
        return DoctorFinding(name="valkey", level=Level.FAIL, detail=error.detail, remedy=error.title)
    except NotifierError as error:
        remedy = "Start that server, or fix the address; without an address `notifier up` starts its own."
        return DoctorFinding(name="valkey", level=Level.FAIL, detail=str(error), remedy=remedy)
    finally:
        profile.close()
    external = settings.redis_url != ""
    return DoctorFinding(
        name="valkey", detail="The configured server answers." if external else "The Valkey binary is installed."
    )


def schema_finding(profile: Profile) -> DoctorFinding:
    pending = profile.pending()
    if not pending:
        return DoctorFinding(name="schema", detail="Up to date.", value=0, unit="steps")
    remedy = "Run `notifier migrate` or `notifier up`."
    detail = f"{len(pending)} migration steps are pending."
    return DoctorFinding(
        name="schema", level=Level.FAIL, detail=detail, remedy=remedy, value=len(pending), unit="steps"
    )


def running_finding(settings: Settings) -> DoctorFinding:
    try:
        ready = read_ready(settings.data)
    except NotRunning:
        return DoctorFinding(
            name="running",
            level=Level.WARN,
            detail="No service runs on this folder.",
            remedy="Start one with `notifier up`.",
        )
    dead = sorted(role for role, pid in ready.pids.items() if not is_alive(pid))
    level = Level.WARN if dead else Level.OK
    remedy = f"See the logs of {', '.join(dead)} in {settings.data / 'logs'}." if dead else ""
    detail = f"At {ready.url}, {len(ready.pids) - len(dead)} of {len(ready.pids)} processes run."
    return DoctorFinding(name="running", level=level, detail=detail, remedy=remedy, value=ready.url)


def cache_finding(ports: Ports) -> DoctorFinding:
    """Check the cache. Problems are warnings: without the cache, inboxes are correct but slower."""
    try:
        generation = ports.pull.generation()
    except CacheUnavailable as error:
        remedy = (
            "This is expected while `notifier up`, which starts Redis, is not running. "
            "If NOTIFIER_REDIS_URL is set, start that server."
        )
        return DoctorFinding(name="cache", level=Level.WARN, detail=str(error), remedy=remedy)
    if generation is None:
        detail, remedy = "The pull index isn't rebuilt yet.", "The reconciler rebuilds it within seconds."
        return DoctorFinding(name="cache", level=Level.WARN, detail=detail, remedy=remedy)
    return DoctorFinding(
        name="cache", detail=f"Redis answers; the pull index has generation {generation}.", value=generation
    )


def activity_finding(ports: Ports, roll_up_interval: timedelta) -> DoctorFinding:
    """Check whether tiers use current activity.

    If the cache loses its data, tiers keep the activity of the last roll-up.
    """
    state, last = active_set_state(ports.active_hours, ports.clock, roll_up_interval)
    if state is ActiveSetFreshness.OFF:
        return DoctorFinding(name="activity", detail="Activity is not rolled up: tiers stay as loaded.", value=state)
    if state is ActiveSetFreshness.CURRENT:
        return DoctorFinding(name="activity", detail=f"Last roll-up at {last:%H:%M:%S} UTC.", value=state)
    detail = "Tiers use the last activity snapshot: " + (
        "no roll-up is recorded." if last is None else f"rolled up at {last:%F %T} UTC."
    )
    remedy = "The next roll-up that can read Redis updates them; this needs a running service."
    return DoctorFinding(name="activity", level=Level.WARN, detail=detail, remedy=remedy, value=state)


def heads_finding(ports: Ports) -> DoctorFinding:
    unpublished = len(ports.heads.unpublished(MAX_COUNTED))
    level = Level.WARN if unpublished else Level.OK
    remedy = "The reconciler publishes them within seconds; this needs a running service." if unpublished else ""
    return DoctorFinding(
        name="heads",
        level=level,
        detail=f"{unpublished} unpublished sequence heads.",
        remedy=remedy,
        value=unpublished,
        limit=0,
        unit="heads",
    )


def bursts_finding(ports: Ports) -> DoctorFinding:
    unfinished, deferred = len(ports.ledger.unfinished_bursts()), ports.deferred_bursts.count()
    detail = f"{unfinished} unfinished" + (f", and {deferred} deferred to a later time." if deferred else ".")
    return DoctorFinding(name="bursts", detail=detail, value=unfinished, unit="bursts")


def throttles_finding(ports: Ports) -> DoctorFinding:
    now = ports.clock.now()
    active = [throttle for throttle in ports.throttles.ending_after(now) if throttle.is_active(now)]
    level, remedy = (Level.WARN, "`notifier throttle list` shows their reasons and ends.") if active else (Level.OK, "")
    detail = f"{len(active)} active."
    return DoctorFinding(
        name="throttles", level=level, detail=detail, remedy=remedy, value=len(active), unit="throttles"
    )


def open_circuits_finding(ports: Ports) -> DoctorFinding:
    try:
        circuits = ports.circuit_report.read()
    except CacheUnavailable:  # cache_finding reports it
        return DoctorFinding(name="open_circuits", detail="Unknown while Redis doesn't answer.")
    if not circuits:
        return DoctorFinding(name="open_circuits", detail="No circuit breaker is open.", value=0, unit="providers")
    sentences = (
        f"{provider} until {circuit.until:%H:%M:%S} UTC: {circuit.reason}"
        for provider, circuit in sorted(circuits.items())
    )
    remedy = "Workers probe the provider; `notifier push test --user U` shows its current response."
    detail = "Circuit breaker open: " + "; ".join(sentences)
    return DoctorFinding(
        name="open_circuits",
        level=Level.WARN,
        detail=detail,
        remedy=remedy,
        value=len(circuits),
        limit=0,
        unit="providers",
    )


def dead_letters_finding(ports: Ports) -> DoctorFinding:
    letters = ports.dead_letters.list(MAX_COUNTED)
    count = len(letters)
    level, remedy = (Level.WARN, "`notifier deadletters` lists them with their causes.") if count else (Level.OK, "")
    newest = f" Newest, from {letters[0].stage}: {letters[0].cause}" if letters else ""
    detail = f"{count}{' or more' if count == MAX_COUNTED else ''}.{newest}"
    return DoctorFinding(
        name="dead_letters", level=level, detail=detail, remedy=remedy, value=count, limit=0, unit="letters"
    )


def stopped_lanes_finding(ports: Ports) -> DoctorFinding:
    """Fail if lanes are stopped, because only an operator can resume them."""
    stops = stopped_lanes(ports.lane_tallies)
    if not stops:
        return DoctorFinding(name="stopped_lanes", detail="No lane is stopped.", value=0, limit=0, unit="lanes")
    sentences = (f"{lane} since {stop.at:%F %T} UTC, {stop.reason}: {stop.cause}" for lane, stop in stops.items())
    remedy = "Fix the cause, then run `notifier deadletters resume LANE`."
    detail = "Stopped by the dead-letter limit: " + "; ".join(sentences) + "."
    return DoctorFinding(
        name="stopped_lanes",
        level=Level.FAIL,
        detail=detail,
        remedy=remedy,
        value=len(stops),
        limit=0,
        unit="lanes",
    )


def tier_rule_finding(ports: Ports, settings: Settings) -> DoctorFinding:
    """Try the tier rule on one shard of each of the newest bursts."""
    rule = load_tier_rule(settings.tier_rule)
    newest = ports.recent_bursts.opened_since(ports.clock.now() - RETENTION, None, MAX_TRIED_BURSTS)
    for burst in newest:
        counts = ports.sets.follower_counts(burst.key.subject).by_shard
        shard = next((n for n, followers in enumerate(counts) if followers), 0)
        for live in ports.sets.live(burst.key.subject, [shard], burst.restricted_to):
            rule(live)
    return DoctorFinding(name="tier_rule", detail=f"{settings.tier_rule or 'built in'}, tried on {len(newest)} bursts.")
