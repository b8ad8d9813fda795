"""`/` and `/demo`: the demo page and the actions of its buttons.

The routes exist only if the settings enable the demo. Every action returns the CLI command and the HTTP request that do
the same.
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

from notifier.api.answers import NO_STORE
from notifier.api.auth.guards import demo_token, takes_json
from notifier.api.auth.identity import issue
from notifier.api.container import Call, Edge, Wired
from notifier.api.demo.phones import ALERTS, DemoPhones, DemoPhonesBody
from notifier.api.demo.traffic import LASTING, STARS, STORM, Storming
from notifier.api.problems import described
from notifier.api.processes import Roles
from notifier.api.routes.static import HEADERS, known
from notifier.codec import read_batch
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.sequencer import affords, fanout_limit, window_over
from notifier.domain.delivery.slice import Pool
from notifier.domain.delivery.throttle import RAMP, Throttle, checked
from notifier.domain.errors import CacheUnavailable, NotFound
from notifier.domain.ids import POLICIES, Kind, Subject, UserId
from notifier.domain.token_bucket import TokenBucket
from notifier.flow.leadership import Leadership
from notifier.wiring.system import build_leadership

VISITOR = "the demo's visitor"
KINDS = ("vip", "active", "occasional", "away")
"""Kinds of the four demo users, in the order of the setting."""
TOKENS_LAST = timedelta(hours=1)
TOKEN_PLACE = b"{{token}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """Controls of the demo over its own service."""

    storming: Storming
    roles: Roles
    empty: Callable[[], bool]
    """Flushes the Redis that this service started. Returns False if there is none or it does not answer."""


After = Annotated[int, QueryParameter(ge=0)]
Mentioned = Annotated[str, QueryParameter(max_length=64)]
Staged = NamedDependency[SkipValidation[Backstage]]


def backstage(edge: Edge, empty: Callable[[], bool]) -> Backstage:
    """Build the demo's controls. Nothing is started yet."""
    nonces = edge.system.ports.nonces
    storming = Storming(gateway=_Gateway(edge), leases=_Leases(edge), clock=edge.clock, nonces=nonces)
    return Backstage(storming=storming, roles=edge.roles, empty=empty)


@dataclass(frozen=True, slots=True)
class _Gateway:
    edge: Edge

    async def send(self, body: bytes) -> None:
        received = await self.edge.in_thread(read_batch, body, self.edge.clock.now())
        await self.edge.intake.accept_batch([item.event for item in received])


@dataclass(frozen=True, slots=True)
class _Leases:
    """The leases of this process. Each is renewed in the store before its term ends."""

    edge: Edge
    held: dict[str, Leadership] = field(default_factory=dict)

    async def hold(self, name: str, term: timedelta) -> bool:
        if name not in self.held:
            self.held[name] = build_leadership(self.edge.system, name, term)
        return await self.edge.in_thread(self.held[name].held, self.edge.clock.now())


class DemoActionBody(msgspec.Struct, kw_only=True):
    """The effect of an action, and the CLI command and HTTP request that do the same."""

    action: str
    says: str
    cli: str
    curl: str


class Pausing(msgspec.Struct, kw_only=True):
    """Reason and length of a pause."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20


class Killing(msgspec.Struct, kw_only=True):
    """The pool whose worker is killed."""

    role: Pool


class DemoUserBody(msgspec.Struct, kw_only=True):
    """A demo user with a token."""

    kind: str
    user: str
    token: str


class Star(msgspec.Struct, kw_only=True):
    """A celebrity and its number of followers."""

    user: str
    followers: int


class DemoPeopleBody(msgspec.Struct, kw_only=True):
    """The demo users, and the celebrities that a storm can mention."""

    people: list[DemoUserBody]
    stars: list[Star]
    """Celebrities that a storm can mention. The second is missing until its followers are loaded."""


@get("/", media_type="text/html", responses=described(403, 404))
async def page(edge: Wired) -> Response[bytes]:
    """Return the demo page, which contains the token for its buttons."""
    file = known().get("demo.html")
    if file is None:
        raise NotFound("There is no such page.")
    content = file.content.replace(TOKEN_PLACE, demo_token(edge.keys).encode())
    return Response(content, media_type=file.kind, headers={**HEADERS, **NO_STORE})


@get("/people", responses=described(401, 403))
async def people(edge: Wired) -> Response[DemoPeopleBody]:
    """Return the four demo users, each with a token that is valid for an hour, and the celebrities."""
    now = edge.clock.now()
    users = [
        DemoUserBody(kind=kind, user=user, token=issue(edge.keys, user, now, TOKENS_LAST))
        for kind, user in zip(KINDS, _people(edge), strict=True)
    ]
    stars = await edge.in_thread(_stars, edge)
    return Response(DemoPeopleBody(people=users, stars=stars), headers=NO_STORE)


@get("/phones", responses=described(400, 401, 403, 503))
async def phones(edge: Wired, after: After = 0) -> Response[DemoPhonesBody]:
    """Return the alerts of the four demo users since an earlier request. The page polls every second."""
    ports = edge.system.ports
    reader = DemoPhones(directory=ports.directory, devices=ports.devices, file=edge.system.settings.data / ALERTS)
    body = await edge.in_thread(reader, KINDS, _people(edge), after)
    return Response(body, headers=NO_STORE)


@post("/storm", status_code=202, responses=described(400, 401, 403, 404, 503))
async def storm(request: Call, edge: Wired, backstage: Staged, of: Mentioned = STARS[0]) -> DemoActionBody:
    """Start a storm: for a few seconds, mention one celebrity at a hundred times the usual rate."""
    star = UserId(of)
    if star not in [celebrity.user for celebrity in await edge.in_thread(_stars, edge)]:
        raise NotFound(f"There is no celebrity @{of} in this demo, or she is still being loaded.")
    text = await edge.in_thread(_coming, edge, Subject(Kind.MENTION, star))
    if not await backstage.storming.storm(star):
        text = "The storm is still going on."
    cli = _ours(edge, f"storm --of {star} --rate {STORM} --for {LASTING}s")
    return DemoActionBody(action="Storm", says=text, cli=cli, curl=_curl(request, edge, f"POST /demo/storm?of={star}"))


@post("/pause", status_code=200, guards=[takes_json], responses=described(400, 401, 403, 415, 503))
async def pause(data: JSONBody[Pausing], request: Call, edge: Wired) -> DemoActionBody:
    """Pause tier P2 for a while. Its slices are parked, and resume gradually over half a minute."""
    ports, now = edge.system.ports, edge.clock.now()
    throttle = checked(
        Throttle(
            id=ports.nonces.new(),
            tier=Tier.P2,
            rate=None,
            reason=data.reason,
            who=VISITOR,
            starts_at=now,
            ends_at=now + timedelta(seconds=data.seconds),
        )
    )
    await edge.in_thread(ports.throttles.put, throttle)
    options = f"--tier p2 --pause --for {data.seconds:g}s --reason {shlex.quote(data.reason)}"
    return DemoActionBody(
        action="Pause P2",
        says=f"P2 is paused for {data.seconds:g} s, and its slices are parked. P0 and P1 go on, and nothing is lost.",
        cli=_ours(edge, f"throttle set {options}"),
        curl=_curl(request, edge, "POST /demo/pause", msgspec.to_builtins(data)),
    )


@delete("/pause", status_code=200, responses=described(401, 403, 503))
async def lift(request: Call, edge: Wired) -> DemoActionBody:
    """End every pause of tier P2 now."""
    lifted = await edge.in_thread(_lift, edge)
    ramp = f"{RAMP.total_seconds():g} s"
    return DemoActionBody(
        action="Lift the pause",
        says=f"P2 comes back over {ramp}, so that what was parked isn't a second storm."
        if lifted
        else "P2 isn't paused.",
        cli=_ours(edge, f"throttle lift {lifted[-1]}" if lifted else "throttle list"),
        curl=_curl(request, edge, "DELETE /demo/pause"),
    )


@post("/kill", status_code=200, guards=[takes_json], responses=described(400, 401, 403, 404, 415))
async def kill(data: JSONBody[Killing], request: Call, edge: Wired, backstage: Staged) -> DemoActionBody:
    """Kill the worker of a pool with SIGKILL, so that it cannot clean up."""
    pid = backstage.roles.pids().get(data.role)
    try:
        if pid is None:
            raise ProcessLookupError
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError as error:
        raise NotFound(f"The worker {data.role} is just being replaced.") from error
    return DemoActionBody(
        action=f"Kill the worker {data.role}",
        says=f"Process {pid} is gone. What it held is queued again when its claim runs out, and goes on where it was.",
        cli=f"kill -9 {pid}",
        curl=_curl(request, edge, "POST /demo/kill", {"role": str(data.role)}),
    )


@post("/empty", status_code=200, responses=described(401, 403, 503))
async def empty(request: Call, edge: Wired, backstage: Staged) -> DemoActionBody:
    """Flush the Redis that this service started itself."""
    if not await edge.in_thread(backstage.empty):
        raise CacheUnavailable("There is no Redis of our own that could be emptied.")
    return DemoActionBody(
        action="Empty Redis",
        says="Redis was emptied. Tabs read the store until the index is rebuilt, and lost tasks are queued again.",
        cli=_ours(edge, "flush"),
        curl=_curl(request, edge, "POST /demo/empty"),
    )


def _people(edge: Edge) -> list[UserId]:
    return [UserId(user) for user in edge.system.settings.demo.split(",")]


def _stars(edge: Edge) -> list[Star]:
    """Return the demo's celebrities that are loaded. The directory contains a celebrity only after its followers."""
    ports = edge.system.ports
    known = ports.directory.accounts(STARS)
    sizes = {star: ports.sets.head(Subject(Kind.MENTION, star)).total for star in STARS if star in known}
    return [Star(user=star, followers=followers) for star, followers in sizes.items()]


def _coming(edge: Edge, subject: Subject) -> str:
    """Return a text that predicts what a storm's mentions would cause now."""
    now = edge.clock.now()
    head = edge.system.ports.heads.load([subject])[subject]
    policy = POLICIES[Kind.MENTION].refilled_every(edge.system.settings.refill)
    limit = fanout_limit(policy)
    budget = (head.budget or TokenBucket.full(limit, now)).refilled(limit, now)
    collapse = edge.system.settings.collapse or policy.collapse
    if head.open is None or window_over(budget, opened_at=head.open.opened_at, collapse=collapse, now=now):
        return f"{STORM} mentions a second for {LASTING} s: a new burst, and one notification for each follower."
    if affords(budget):
        return f"{STORM} mentions a second for {LASTING} s: they join the open burst, and nobody is told twice."
    wait = budget.wait(limit)
    return (
        f"The budget at work: {limit.capacity} fan-outs in a row were spent, and the next one is earned in "
        f"{max(1, round(wait.total_seconds()))} s. Until then all mentions join the open burst, and its count grows."
    )


def _lift(edge: Edge) -> list[str]:
    throttles, now = edge.system.ports.throttles, edge.clock.now()
    active = [throttle.id for throttle in throttles.since(now) if throttle.tier is Tier.P2 and throttle.active(now)]
    return [id for id in active if throttles.lift(id, VISITOR, now)]


def _ours(edge: Edge, verb: str) -> str:
    """Return a CLI command that uses the command which started this service, because `notifier` may not be on PATH."""
    settings = edge.system.settings
    return f"{settings.command} {verb} --data {shlex.quote(str(settings.data))}"


def _curl(request: Call, edge: Edge, what: str, body: Mapping[str, object] | None = None) -> str:
    method, path = what.split(" ")
    parts = ["curl", "-X", method, "-H", shlex.quote(f"Authorization: Bearer {demo_token(edge.keys)}")]
    if body is not None:
        # Many machines have a curl that is too old for --json.
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(msgspec.json.encode(body).decode())]
    return " ".join([*parts, shlex.quote(f"{request.url.scheme}://{request.url.netloc}{path}")])
