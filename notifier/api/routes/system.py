"""`/v1/system`: what operators watch, once or as it changes."""

from typing import Literal

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import SkipValidation
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from notifier.api.answers import JSON, NO_STORE, encoded
from notifier.api.background.overview import Watching
from notifier.api.container import Wired
from notifier.api.event_stream import MEDIA_TYPE, EventStream
from notifier.api.problems import described
from notifier.api.processes import shared
from notifier.api.schemas.openapi import Description
from notifier.api.schemas.system import SystemBody
from notifier.domain.audience.activity import Published, published
from notifier.domain.errors import CacheUnavailable
from notifier.flow.lane_guard import stopped_lanes
from notifier.wiring.system import System

SPOKEN = "system, whose data are SystemBody, and trouble, whose data name a code."


@get("/", responses=described(401, 403, 429, 503))
async def overview(edge: Wired) -> Response[SystemBody]:
    """One snapshot; at most a second old."""
    body = await edge.looking.latest()
    return Response(encoded(SystemBody, body), media_type=JSON, headers=NO_STORE)


@get(
    "/stream",
    responses={200: ResponseSpec(str, media_type=MEDIA_TYPE, description=SPOKEN)} | described(401, 403, 429, 503),
)
async def stream(edge: Wired) -> EventStream:
    """A snapshot a second, as events named `system`; `trouble` with a code while the store doesn't answer."""
    edge.watchers.require_room()
    return EventStream(Watching(edge.watchers, edge.looking.events()))


# What operators and their tools ask: is it up, is it ready, its metrics, and the description of the API.


class Up(msgspec.Struct, kw_only=True):
    status: str = "up"


class Readiness(msgspec.Struct, kw_only=True):
    store: str
    cache: str
    """`unavailable` costs speed and nothing else."""
    activity: Published
    """`snapshot`: tiers are made of who was active when that was published last; `held`: as it was loaded."""
    stopped_lanes: list[str]
    """Lanes that wait for an operator, because too many of their records died. The API serves all the same."""
    status: str = "ready"
    insecure_dev: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """There where anybody at this machine is let in without a key."""


@get("/healthz", sync_to_thread=False)
def healthz() -> Up:
    """The process is up."""
    return Up()


@get("/readyz", responses=described(503))
async def readyz(edge: Wired) -> Readiness:
    """The store answers; without the cache everything is right and slower."""
    return await edge.in_thread(readiness, edge.system)


@get("/metrics", media_type="text/plain", responses=described(401, 403, 429))
async def metrics(edge: Wired) -> Response[str]:
    """In the format of Prometheus; of all processes where they share a folder for it."""
    text = await edge.in_thread(exposition, edge.system.metrics.registry)
    # As a header: to a media type the framework would add its charset again.
    return Response(text.decode(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@get("/openapi.json")
async def openapi(
    edge: Wired, description: NamedDependency[SkipValidation[Description]]
) -> Response[dict[str, object]]:
    """This description."""
    return Response(await edge.in_thread(description.document), headers={"Cache-Control": "no-cache"})


def readiness(system: System) -> Readiness:
    """Raises StoreUnavailable."""
    system.ports.throttles.since(system.ports.clock.now())
    every, now = system.settings.roll_up_every, system.ports.clock.now()
    insecure: Literal[True] | msgspec.UnsetType = True if system.settings.insecure_dev else msgspec.UNSET
    try:
        system.ports.pressure.level()
        last, cache = system.ports.active_hours.last_rolled_up() if every else None, "ok"
    except CacheUnavailable:  # fails open: all that is promised holds without it
        last, cache = None, "unavailable"
    return Readiness(
        store="ok",
        cache=cache,
        activity=published(last, now, every),
        stopped_lanes=list(stopped_lanes(system.ports.lane_tallies)),
        insecure_dev=insecure,
    )


def exposition(own: CollectorRegistry) -> bytes:
    return generate_latest(shared(own))
