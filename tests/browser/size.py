"""How much an open page holds, once what nobody needs any more has been collected."""

from dataclasses import astuple, dataclass

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


def not_larger(page: Page, before: Size, *, by: Size) -> None:
    """What is on its way out is waited for, on a busy machine for seconds; what a page keeps stays, and fails this."""
    after = size(page)
    for _ in range(40):
        if all(is_now < was + more for is_now, was, more in zip(*map(astuple, (after, before, by)), strict=True)):
            return
        page.wait_for_timeout(250)
        after = size(page)
    raise AssertionError(f"{before} has become {after}")


def _document(talk: CDPSession) -> dict[str, int]:
    counted = talk.send("Memory.getDOMCounters")
    return {"nodes": counted["nodes"], "listeners": counted["jsEventListeners"]}


def _heap(talk: CDPSession) -> int:
    return next(
        int(one["value"]) for one in talk.send("Performance.getMetrics")["metrics"] if one["name"] == "JSHeapUsedSize"
    )
