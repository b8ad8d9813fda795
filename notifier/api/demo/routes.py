"""`/` and `/demo`: the page of the demo and what its buttons do; there only where the settings say that this is one.

Every action answers with the command and the request that do the same.
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
"""Of the four people, in the order in which the settings name them."""
TOKENS_LAST = timedelta(hours=1)
TOKEN_PLACE = b"{{token}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """What the demo may do to its own service."""

    storming: Storming
    roles: Roles
    empty: Callable[[], bool]
    """Empties our own Redis; False where none of ours answers."""


After = Annotated[int, QueryParameter(ge=0)]
Mentioned = Annotated[str, QueryParameter(max_length=64)]
Staged = NamedDependency[SkipValidation[Backstage]]


def backstage(edge: Edge, empty: Callable[[], bool]) -> Backstage:
    """Starts nothing."""
    nonces = edge.system.ports.nonces
    storming = Storming(gateway=_Gateway(edge), leases=_Leases(edge), clock=edge.clock, nonces=nonces)
    return Backstage(storming=storming, roles=edge.roles, empty=empty)


@dataclass(frozen=True, slots=True)
class _Gateway:
    edge: Edge

    async def send(self, body: bytes) -> None:
        received = await self.edge.in_thread(read_batch, body, self.edge.clock.now())
        await self.edge.intake.accept_batch([each.event for each in received])


@dataclass(frozen=True, slots=True)
class _Leases:
    """The leases of this process, each renewed in the store before its term ends."""

    edge: Edge
    held: dict[str, Leadership] = field(default_factory=dict)

    async def hold(self, name: str, term: timedelta) -> bool:
        if name not in self.held:
            self.held[name] = build_leadership(self.edge.system, name, term)
        return await self.edge.in_thread(self.held[name].held, self.edge.clock.now())


class DemoActionBody(msgspec.Struct, kw_only=True):
    """What an action did, and how it is done without the page."""

    action: str
    says: str
    cli: str
    curl: str


class Pausing(msgspec.Struct, kw_only=True):
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20


class Killing(msgspec.Struct, kw_only=True):
    role: Pool


class DemoUserBody(msgspec.Struct, kw_only=True):
    kind: str
    user: str
    token: str


class Star(msgspec.Struct, kw_only=True):
    user: str
    followers: int


class DemoPeopleBody(msgspec.Struct, kw_only=True):
    people: list[DemoUserBody]
    stars: list[Star]
    """The celebrities that a storm may mention; the second one is missing while she is being loaded."""


@get("/", media_type="text/html", responses=described(403, 404))
async def page(edge: Wired) -> Response[bytes]:
    """The page of the demo, with the token that its buttons need."""
    file = known().get("demo.html")
    if file is None:
        raise NotFound("There is no such page.")
    content = file.content.replace(TOKEN_PLACE, demo_token(edge.keys).encode())
    return Response(content, media_type=file.kind, headers={**HEADERS, **NO_STORE})


@get("/people", responses=described(401, 403))
async def people(edge: Wired) -> Response[DemoPeopleBody]:
    """The four people, each with a token that opens the inbox for an hour, and the celebrities."""
    now = edge.clock.now()
    found = [
        DemoUserBody(kind=kind, user=user, token=issue(edge.keys, user, now, TOKENS_LAST))
        for kind, user in zip(KINDS, _people(edge), strict=True)
    ]
    stars = await edge.in_thread(_stars, edge)
    return Response(DemoPeopleBody(people=found, stars=stars), headers=NO_STORE)


@get("/phones", responses=described(400, 401, 403, 503))
async def phones(edge: Wired, after: After = 0) -> Response[DemoPhonesBody]:
    """What the four people's phones rang for since a look before; the page looks every second."""
    ports = edge.system.ports
    ringing = DemoPhones(directory=ports.directory, devices=ports.devices, file=edge.system.settings.data / ALERTS)
    found = await edge.in_thread(ringing, KINDS, _people(edge), after)
    return Response(found, headers=NO_STORE)


@post("/storm", status_code=202, responses=described(400, 401, 403, 404, 503))
async def storm(request: Call, edge: Wired, backstage: Staged, of: Mentioned = STARS[0]) -> DemoActionBody:
    """A hundred times the usual rate for one celebrity, for some seconds."""
    star = UserId(of)
    if star not in [each.user for each in await edge.in_thread(_stars, edge)]:
        raise NotFound(f"There is no celebrity @{of} in this demo, or she is still being loaded.")
    says = await edge.in_thread(_coming, edge, Subject(Kind.MENTION, star))
    if not await backstage.storming.storm(star):
        says = "The storm is still going on."
    cli = _ours(edge, f"storm --of {star} --rate {STORM} --for {LASTING}s")
    return DemoActionBody(action="Storm", says=says, cli=cli, curl=_curl(request, edge, f"POST /demo/storm?of={star}"))


@post("/pause", status_code=200, guards=[takes_json], responses=described(400, 401, 403, 415, 503))
async def pause(data: JSONBody[Pausing], request: Call, edge: Wired) -> DemoActionBody:
    """Holds P2 for a while; what is held is parked, and comes back over half a minute."""
    ports, now = edge.system.ports, edge.clock.now()
    held = checked(
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
    await edge.in_thread(ports.throttles.put, held)
    options = f"--tier p2 --pause --for {data.seconds:g}s --reason {shlex.quote(data.reason)}"
    return DemoActionBody(
        action="Pause P2",
        says=f"P2 is paused for {data.seconds:g} s, and its slices are parked. P0 and P1 go on, and nothing is lost.",
        cli=_ours(edge, f"throttle set {options}"),
        curl=_curl(request, edge, "POST /demo/pause", msgspec.to_builtins(data)),
    )


@delete("/pause", status_code=200, responses=described(401, 403, 503))
async def lift(request: Call, edge: Wired) -> DemoActionBody:
    """Ends every pause of P2 now."""
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
    """SIGKILL for the worker of a pool: it can't tidy up."""
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
    """FLUSHALL of the Redis that this service started itself."""
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
    """Those of the demo's celebrities whom the directory knows: their names are written once they are loaded."""
    ports = edge.system.ports
    known = ports.directory.accounts(STARS)
    sizes = {star: ports.sets.head(Subject(Kind.MENTION, star)).total for star in STARS if star in known}
    return [Star(user=star, followers=followers) for star, followers in sizes.items()]


def _coming(edge: Edge, subject: Subject) -> str:
    """What the mentions of a storm that begins now will be."""
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
    held = [each.id for each in throttles.since(now) if each.tier is Tier.P2 and each.active(now)]
    return [id for id in held if throttles.lift(id, VISITOR, now)]


def _ours(edge: Edge, verb: str) -> str:
    """The command as it was typed to start this very service: nothing else need be on the visitor's PATH."""
    settings = edge.system.settings
    return f"{settings.command} {verb} --data {shlex.quote(str(settings.data))}"


def _curl(request: Call, edge: Edge, what: str, body: Mapping[str, object] | None = None) -> str:
    method, path = what.split(" ")
    parts = ["curl", "-X", method, "-H", shlex.quote(f"Authorization: Bearer {demo_token(edge.keys)}")]
    if body is not None:
        # Spelled out: the curl of many a machine is older than --json.
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(msgspec.json.encode(body).decode())]
    return " ".join([*parts, shlex.quote(f"{request.url.scheme}://{request.url.netloc}{path}")])
