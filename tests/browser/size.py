"""How much an open page holds, once what nobody needs any more has been collected."""

from dataclasses import dataclass

from playwright.sync_api import CDPSession, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    nodes: int
    listeners: int
    heap: int
    """Bytes."""


def size(page: Page) -> Size:
    talk = page.context.new_cdp_session(page)
    talk.send("Performance.enable")
    for _ in range(2):  # what only a collected thing held on to goes with the next one
        talk.send("HeapProfiler.collectGarbage")
    found = Size(heap=_heap(talk), **_document(talk))
    talk.detach()
    return found


def _document(talk: CDPSession) -> dict[str, int]:
    counted = talk.send("Memory.getDOMCounters")
    return {"nodes": counted["nodes"], "listeners": counted["jsEventListeners"]}


def _heap(talk: CDPSession) -> int:
    return next(
        int(one["value"]) for one in talk.send("Performance.getMetrics")["metrics"] if one["name"] == "JSHeapUsedSize"
    )
