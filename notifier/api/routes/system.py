"""Operations routes: system overview, health checks, metrics and the OpenAPI document."""

from typing import Literal

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import SkipValidation
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from notifier.api.background.overview_snapshots import SnapshotStream
from notifier.api.container import WiredContainer
from notifier.api.event_stream import MEDIA_TYPE, EventStream
from notifier.api.problems import problem_responses
from notifier.api.process_status_loading_progress_metrics import merged_metrics
from notifier.api.response_parts import JSON, NO_STORE_HEADERS, pre_encoded
from notifier.api.schemas.openapi import OpenApiDocument
from notifier.api.schemas.system_overview import SystemBody
from notifier.domain.audience.activity import ActiveSetFreshness, active_set_freshness
from notifier.domain.errors import CacheUnavailable
from notifier.flow.dead_letter_lane_stops import stopped_lanes
from notifier.wiring.shared_parts import System

STREAM_DESCRIPTION = "Events: system (its data is a SystemBody) and trouble (its data has a problem code)."


@get("/", responses=problem_responses(401, 403, 429, 503))
async def overview(container: WiredContainer) -> Response[SystemBody]:
    """Return the overview of the system. It is read at most once a second."""
    body = await container.overview_snapshots.latest()
    return Response(pre_encoded(SystemBody, body), media_type=JSON, headers=NO_STORE_HEADERS)


@get(
    "/stream",
    responses={200: ResponseSpec(str, media_type=MEDIA_TYPE, description=STREAM_DESCRIPTION)}
    | problem_responses(401, 403, 429, 503),
)
async def stream(container: WiredContainer) -> EventStream:
    """Stream at most one snapshot a second as `system` events.

    If a snapshot fails, for example because the store is unavailable, the stream sends a `trouble` event with an error
    code instead.
    """
    container.overview_streams.require_room()
    return EventStream(SnapshotStream(container.overview_streams, container.overview_snapshots.events()))


# Health checks, metrics and the OpenAPI document.


class LivenessBody(msgspec.Struct, kw_only=True):
    """Liveness of the process."""

    status: str = "up"


class Readiness(msgspec.Struct, kw_only=True):
    """Readiness of the service.

    - `cache` is `unavailable` if Redis does not answer.
    - `activity` is `ok`, `snapshot` if the last roll-up is too old or unknown, or `off` if there are no roll-ups.
    - `stopped_lanes` are processing lanes that wait for an operator after too many dead letters. The API keeps serving.
    - `insecure_dev` is present if requests from this machine need no key.
    """

    store: str
    cache: str
    activity: ActiveSetFreshness
    stopped_lanes: list[str]
    status: str = "ready"
    insecure_dev: Literal[True] | msgspec.UnsetType = msgspec.UNSET


@get("/healthz", sync_to_thread=False)
def healthz() -> LivenessBody:
    """Return 200 while the process is up (liveness)."""
    return LivenessBody()


@get("/readyz", responses=problem_responses(503))
async def readyz(container: WiredContainer) -> Readiness:
    """Return 200 while the store answers (readiness). Without Redis, responses are correct but slower."""
    return await container.in_thread(readiness, container.system)


@get("/metrics", media_type="text/plain", responses=problem_responses(401, 403, 429))
async def metrics(container: WiredContainer) -> Response[str]:
    """Return metrics in the Prometheus text format, including those of all processes that share a metrics folder."""
    text = await container.in_thread(exposition, container.system.metrics.registry)
    # Set the header directly: the framework would append a second charset to a media type.
    return Response(text.decode(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@get("/openapi.json")
async def openapi(
    container: WiredContainer, openapi_document: NamedDependency[SkipValidation[OpenApiDocument]]
) -> Response[dict[str, object]]:
    """Return the OpenAPI document of this API."""
    return Response(await container.in_thread(openapi_document.content), headers={"Cache-Control": "no-cache"})


def readiness(system: System) -> Readiness:
    """Check the store and Redis. Raises StoreUnavailable."""
    system.ports.throttles.ending_after(system.ports.clock.now())  # a short read of the store
    roll_up_interval, now = system.settings.roll_up_every, system.ports.clock.now()
    insecure: Literal[True] | msgspec.UnsetType = True if system.settings.insecure_dev else msgspec.UNSET
    try:
        system.ports.backpressure.level()
        last_roll_up, cache = system.ports.active_hours.last_roll_up() if roll_up_interval else None, "ok"
    except CacheUnavailable:  # fails open: every guarantee holds without the cache
        last_roll_up, cache = None, "unavailable"
    return Readiness(
        store="ok",
        cache=cache,
        activity=active_set_freshness(last_roll_up, now, roll_up_interval),
        stopped_lanes=list(stopped_lanes(system.ports.lane_tallies)),
        insecure_dev=insecure,
    )


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(merged_metrics(registry))
