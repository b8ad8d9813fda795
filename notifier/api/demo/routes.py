"""`/` and `/demo`: the demo page and the actions of its buttons.

The routes exist only if the settings enable the demo.
"""

import os
import shlex
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated

import msgspec
from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, QueryParameter, SkipValidation

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.guards import require_json
from notifier.api.auth.service_and_installation_keys import demo_token
from notifier.api.container import ApiContainer, UserRequest, WiredContainer
from notifier.api.demo.phone_alerts import ALERTS_FILE, DemoPhoneReader, DemoPhonesBody
from notifier.api.demo.traffic import STORM_CELEBRITIES, STORM_RATE, STORM_SECONDS, DemoTraffic
from notifier.api.problems import problem_responses
from notifier.api.process_status_loading_progress_metrics import RoleProcesses
from notifier.api.response_parts import NO_STORE_HEADERS
from notifier.api.routes.static import PAGE_SECURITY_HEADERS, static_files
from notifier.codec import read_batch
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.sequencer import fanout_limit, has_budget, is_collapse_window_over
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.delivery.throttle_and_backpressure import RAMP, Throttle, validated_throttle
from notifier.domain.errors import CacheUnavailable, NotFound
from notifier.domain.ids import POLICIES, Kind, Subject, UserId
from notifier.domain.token_bucket import TokenBucket
from notifier.flow.leadership import Leadership
from notifier.wiring.shared_parts import build_leadership

VISITOR_NAME = "the demo's visitor"
"""Operator of throttles that the page's buttons set or lift."""
USER_KINDS = ("vip", "active", "occasional", "away")
"""Kinds of the four demo users, in the order in which the setting `demo` names the users."""
TOKEN_LIFETIME = timedelta(hours=1)
TOKEN_PLACEHOLDER = b"{{token}}"
"""Text in demo.html that is replaced by the token for the buttons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoControls:
    """The parts of the service that the demo's buttons control."""

    traffic: DemoTraffic
    roles: RoleProcesses
    flush_redis: Callable[[], bool]
    """Flushes the Redis that this service started. Returns False if there is none or it does not answer."""


After = Annotated[int, QueryParameter(ge=0)]
Mentioned = Annotated[str, QueryParameter(max_length=64)]
DemoControlsDependency = NamedDependency[SkipValidation[DemoControls]]


def demo_controls(container: ApiContainer, flush_redis: Callable[[], bool]) -> DemoControls:
    nonces = container.system.ports.nonces
    traffic = DemoTraffic(
        sink=_IntakeSink(container), leases=_ProcessLeases(container), clock=container.clock, nonces=nonces
    )
    return DemoControls(traffic=traffic, roles=container.roles, flush_redis=flush_redis)


@dataclass(frozen=True, slots=True)
class _IntakeSink:
    container: ApiContainer

    async def send(self, body: bytes) -> None:
        received = await self.container.in_thread(read_batch, body, self.container.clock.now())
        await self.container.intake.accept_batch([received_event.event for received_event in received])


@dataclass(frozen=True, slots=True)
class _ProcessLeases:
    container: ApiContainer
    leaderships: dict[str, Leadership] = field(default_factory=dict)

    async def take_or_renew(self, name: str, term: timedelta) -> bool:
        if name not in self.leaderships:
            self.leaderships[name] = build_leadership(self.container.system, name, term)
        return await self.container.in_thread(self.leaderships[name].is_leader, self.container.clock.now())


class DemoActionBody(msgspec.Struct, kw_only=True):
    """The effect of an action, with a shell command and an HTTP request for the visitor to copy."""

    action: str
    message: str
    cli: str
    curl: str


class PauseBody(msgspec.Struct, kw_only=True):
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20


class KillBody(msgspec.Struct, kw_only=True):
    """The pool whose first worker is killed."""

    role: Pool


class DemoUserBody(msgspec.Struct, kw_only=True):
    kind: str
    """One of USER_KINDS."""
    user: str
    token: str


class CelebrityBody(msgspec.Struct, kw_only=True):
    user: str
    followers: int


class DemoPeopleBody(msgspec.Struct, kw_only=True):
    """The demo users, and the celebrities that a storm can mention: those whose followers are loaded."""

    people: list[DemoUserBody]
    stars: list[CelebrityBody]


@get("/", media_type="text/html", responses=problem_responses(403, 404))
async def page(container: WiredContainer) -> Response[bytes]:
    """Return the demo page, which contains the token for its buttons."""
    file = static_files().get("demo.html")
    if file is None:
        raise NotFound("Unknown page.")
    content = file.content.replace(TOKEN_PLACEHOLDER, demo_token(container.keys).encode())
    return Response(content, media_type=file.media_type, headers={**PAGE_SECURITY_HEADERS, **NO_STORE_HEADERS})


@get("/people", responses=problem_responses(401, 403))
async def people(container: WiredContainer) -> Response[DemoPeopleBody]:
    """Return the four demo users, each with a token that is valid for an hour, and the celebrities."""
    now = container.clock.now()
    users = [
        DemoUserBody(kind=kind, user=user, token=issue_token(container.keys, user, now, TOKEN_LIFETIME))
        for kind, user in zip(USER_KINDS, _demo_users(container), strict=True)
    ]
    stars = await container.in_thread(_loaded_celebrities, container)
    return Response(DemoPeopleBody(people=users, stars=stars), headers=NO_STORE_HEADERS)


@get("/phones", responses=problem_responses(400, 401, 403, 503))
async def phones(container: WiredContainer, after: After = 0) -> Response[DemoPhonesBody]:
    """Return the alerts of the four demo users since an earlier request."""
    ports = container.system.ports
    reader = DemoPhoneReader(
        directory=ports.directory, devices=ports.devices, alerts_file=container.system.settings.data / ALERTS_FILE
    )
    body = await container.in_thread(reader, USER_KINDS, _demo_users(container), after)
    return Response(body, headers=NO_STORE_HEADERS)


@post("/storm", status_code=202, responses=problem_responses(400, 401, 403, 404, 503))
async def storm(
    request: UserRequest,
    container: WiredContainer,
    controls: DemoControlsDependency,
    of: Mentioned = STORM_CELEBRITIES[0],
) -> DemoActionBody:
    """Start a storm: for a few seconds, mention one celebrity at a hundred times the usual rate."""
    celebrity_name = UserId(of)
    if celebrity_name not in [
        celebrity.user for celebrity in await container.in_thread(_loaded_celebrities, container)
    ]:
        raise NotFound(f"The demo has no celebrity @{of}, or it is still being loaded.")
    text = await container.in_thread(_forecast_text, container, Subject(Kind.MENTION, celebrity_name))
    if not await controls.traffic.start_storm(celebrity_name):
        text = "The storm is still running."
    cli = _cli_command(container, f"storm --of {celebrity_name} --rate {STORM_RATE} --for {STORM_SECONDS}s")
    return DemoActionBody(
        action="Storm", message=text, cli=cli, curl=_curl(request, container, f"POST /demo/storm?of={celebrity_name}")
    )


@post("/pause", status_code=200, guards=[require_json], responses=problem_responses(400, 401, 403, 415, 503))
async def pause(data: JSONBody[PauseBody], request: UserRequest, container: WiredContainer) -> DemoActionBody:
    """Pause tier P2 for a while. Its slices are parked. After the pause they resume gradually, over half a minute."""
    ports, now = container.system.ports, container.clock.now()
    throttle = validated_throttle(
        Throttle(
            id=ports.nonces.new(),
            tier=Tier.P2,
            rate=None,
            reason=data.reason,
            operator=VISITOR_NAME,
            starts_at=now,
            ends_at=now + timedelta(seconds=data.seconds),
        )
    )
    await container.in_thread(ports.throttles.put, throttle)
    options = f"--tier p2 --pause --for {data.seconds:g}s --reason {shlex.quote(data.reason)}"
    return DemoActionBody(
        action="Pause P2",
        message=f"P2 is paused for {data.seconds:g} s and its slices are parked. P0 and P1 continue, and no "
        "notification is lost.",
        cli=_cli_command(container, f"throttle set {options}"),
        curl=_curl(request, container, "POST /demo/pause", msgspec.to_builtins(data)),
    )


@delete("/pause", status_code=200, responses=problem_responses(401, 403, 503))
async def lift(request: UserRequest, container: WiredContainer) -> DemoActionBody:
    """End every pause and rate limit of tier P2 now."""
    lifted = await container.in_thread(_lift_throttles, container)
    ramp = f"{RAMP.total_seconds():g} s"
    return DemoActionBody(
        action="Lift the throttles of P2",
        message=f"P2 resumes over {ramp}, so that the parked slices do not cause a second storm."
        if lifted
        else "P2 is neither paused nor slowed.",
        cli=_cli_command(container, f"throttle lift {Tier.P2}" if lifted else "throttle list"),
        curl=_curl(request, container, "DELETE /demo/pause"),
    )


@post("/kill", status_code=200, guards=[require_json], responses=problem_responses(400, 401, 403, 404, 415))
async def kill(
    data: JSONBody[KillBody], request: UserRequest, container: WiredContainer, controls: DemoControlsDependency
) -> DemoActionBody:
    """Kill the first worker of a pool with SIGKILL."""
    pid = controls.roles.pids().get(data.role)
    try:
        if pid is None:
            raise ProcessLookupError
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError as error:
        raise NotFound(f"The worker {data.role} is not running; try again.") from error
    return DemoActionBody(
        action=f"Kill the worker {data.role}",
        message=f"Process {pid} was killed. Its slices are queued again when their claims expire, and resume "
        "where they stopped.",
        cli=f"kill -9 {pid}",
        curl=_curl(request, container, "POST /demo/kill", {"role": str(data.role)}),
    )


@post("/empty", status_code=200, responses=problem_responses(401, 403, 503))
async def empty_redis(
    request: UserRequest, container: WiredContainer, controls: DemoControlsDependency
) -> DemoActionBody:
    """Flush the Redis that this service started itself."""
    if not await container.in_thread(controls.flush_redis):
        raise CacheUnavailable("This service did not start a Redis of its own, or that Redis does not answer.")
    return DemoActionBody(
        action="Empty Redis",
        message="Redis was flushed. Inboxes read the store until the index is rebuilt. Lost tasks are queued again.",
        cli=_cli_command(container, "flush"),
        curl=_curl(request, container, "POST /demo/empty"),
    )


def _demo_users(container: ApiContainer) -> list[UserId]:
    return [UserId(user) for user in container.system.settings.demo.split(",")]


def _loaded_celebrities(container: ApiContainer) -> list[CelebrityBody]:
    """Return the celebrities in the directory, which are those whose followers are all loaded."""
    ports = container.system.ports
    loaded = ports.directory.accounts(STORM_CELEBRITIES)
    follower_counts = {
        celebrity: ports.sets.follower_counts(Subject(Kind.MENTION, celebrity)).total
        for celebrity in STORM_CELEBRITIES
        if celebrity in loaded
    }
    return [CelebrityBody(user=celebrity, followers=followers) for celebrity, followers in follower_counts.items()]


def _forecast_text(container: ApiContainer, subject: Subject) -> str:
    """Return a text that predicts what a storm that starts now would cause."""
    now = container.clock.now()
    head = container.system.ports.heads.load([subject])[subject]
    policy = POLICIES[Kind.MENTION].refilled_every(container.system.settings.refill)
    limit = fanout_limit(policy)
    budget = (head.budget or TokenBucket.full(limit, now)).refilled(limit, now)
    collapse = container.system.settings.collapse or policy.collapse
    if head.open is None or is_collapse_window_over(budget, opened_at=head.open.opened_at, collapse=collapse, now=now):
        return (
            f"{STORM_RATE} mentions per second for {STORM_SECONDS} s:"
            " a new burst, and one notification for each follower."
        )
    if has_budget(budget):
        return (
            f"{STORM_RATE} mentions per second for {STORM_SECONDS} s:"
            " they join the open burst, and no follower is notified again."
        )
    wait = budget.time_until(limit)
    return (
        f"The fan-out budget is empty: {limit.capacity} fan-outs in a row were spent, and the next one is available "
        f"in {max(1, round(wait.total_seconds()))} s. Until then all mentions join the open burst, and "
        "its count grows."
    )


def _lift_throttles(container: ApiContainer) -> list[str]:
    throttles, now = container.system.ports.throttles, container.clock.now()
    active_ids = [
        throttle.id for throttle in throttles.ending_after(now) if throttle.tier is Tier.P2 and throttle.is_active(now)
    ]
    return [id for id in active_ids if throttles.lift(id, VISITOR_NAME, now)]


def _cli_command(container: ApiContainer, command: str) -> str:
    """Return a CLI command to copy, which starts with the service's own program: PATH may lack `notifier`."""
    settings = container.system.settings
    return f"{settings.command} {command} --data {shlex.quote(str(settings.data))}"


def _curl(
    request: UserRequest, container: ApiContainer, operation: str, body: Mapping[str, object] | None = None
) -> str:
    method, path = operation.split(" ")
    parts = ["curl", "-X", method, "-H", shlex.quote(f"Authorization: Bearer {demo_token(container.keys)}")]
    if body is not None:
        # Not --json: many machines have a curl that is too old for it.
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(msgspec.json.encode(body).decode())]
    return " ".join([*parts, shlex.quote(f"{request.url.scheme}://{request.url.netloc}{path}")])
