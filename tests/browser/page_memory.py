"""How much memory an open page holds after garbage collection."""

from dataclasses import astuple, dataclass

from playwright.sync_api import CDPSession, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMemory:
    nodes: int
    listeners: int
    heap: int
    """Bytes."""


def memory_of(page: Page) -> PageMemory:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    for _ in range(2):  # what was held only by a collected object is freed in the second pass
        session.send("HeapProfiler.collectGarbage")
    memory = PageMemory(heap=_heap(session), **_document(session))
    session.detach()
    return memory


def assert_not_larger(page: Page, before: PageMemory, *, limit: PageMemory) -> None:
    """Fail if the page has grown by the limit for 10 s; a busy machine collects garbage late."""
    after = memory_of(page)
    for _ in range(40):
        if all(
            current < earlier + allowed
            for current, earlier, allowed in zip(*map(astuple, (after, before, limit)), strict=True)
        ):
            return
        page.wait_for_timeout(250)
        after = memory_of(page)
    raise AssertionError(f"{before} has become {after}")


def _document(session: CDPSession) -> dict[str, int]:
    counters = session.send("Memory.getDOMCounters")
    return {"nodes": counters["nodes"], "listeners": counters["jsEventListeners"]}


def _heap(session: CDPSession) -> int:
    return next(
        int(metric["value"])
        for metric in session.send("Performance.getMetrics")["metrics"]
        if metric["name"] == "JSHeapUsedSize"
    )
