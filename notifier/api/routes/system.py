"""`/v1/system`: what operators watch, once or as it changes."""

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from notifier.api.background.overview_watchers import MEDIA_TYPE, Watching
from notifier.api.container import Wired
from notifier.api.problems import described
from notifier.api.schemas.system import SystemBody

SPOKEN = "system, whose data are SystemBody, and trouble, whose data name a code."


@get("/", responses=described(401, 403, 429, 503))
async def overview(edge: Wired) -> Response[SystemBody]:
    """One snapshot; at most a second old."""
    body = await edge.looking.latest()
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})  # type: ignore[arg-type] # encoded once for everybody


@get(
    "/stream",
    responses={200: ResponseSpec(str, media_type=MEDIA_TYPE, description=SPOKEN)} | described(401, 403, 429, 503),
)
async def stream(edge: Wired) -> Watching:
    """A snapshot a second, as events named `system`; `trouble` with a code while the store doesn't answer."""
    edge.watchers.require_room()
    return Watching(edge.watchers, edge.looking.events())
