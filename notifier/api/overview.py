"""`/v1/system`: what operators watch, once or as it changes."""

from litestar import Response, get
from litestar.response import Stream

from notifier.api.edge import Wired
from notifier.api.problems import described
from notifier.api.telling import SystemBody


@get("/", responses=described(401, 403, 503))
async def overview(edge: Wired) -> Response[SystemBody]:
    """One snapshot; at most a second old."""
    body = await edge.looking.latest()
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})  # type: ignore[arg-type] # encoded once for everybody


@get("/stream", media_type="text/event-stream", responses=described(401, 403))
async def stream(edge: Wired) -> Stream:
    """A snapshot a second, as events named `system`; `trouble` with a code while the store doesn't answer."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(edge.looking.events(), media_type="text/event-stream", headers=headers)
