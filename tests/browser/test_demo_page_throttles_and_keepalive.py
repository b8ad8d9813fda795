"""The demo's page shows pauses and rates, and no lost connection during a slow overview."""

from collections.abc import Mapping, Sequence

import pytest
from playwright.sync_api import Page, expect

FAKE_SERVICE = """() => {
  // One stream of the system stays open; the test writes its blocks. All other requests are refused.
  const stream = new TransformStream();
  const writer = stream.writable.getWriter();
  window.send = (block) => writer.write(new TextEncoder().encode(block + "\\n\\n"));
  window.fetch = async (path, options) => {
    if (path === "/v1/system/stream") return new Response(stream.readable);
    return new Response("{}", { status: 404, headers: { "Content-Type": "application/json" } });
  };
}"""
SEND = """(snapshot) => window.send("event: system\\ndata: " + JSON.stringify(snapshot))"""
WATCH = """() => {
  const connection = document.querySelector("#connection");
  window.connections = [];
  const note = () => window.connections.push(connection.textContent);
  new MutationObserver(note).observe(connection, { childList: true });
}"""
"""Records the changes of the connection's text."""
P2 = {"spans": [[0, 1, "parked"]], "people": 0, "duration_seconds": None}

Throttle = Mapping[str, object]


def throttle(rate: float | None, state: str = "active") -> Throttle:
    return {"tier": "p2", "rate": rate, "state": state}


PAUSE, RATE = throttle(None), throttle(500.0)


def snapshot(throttles: Sequence[Throttle] = ()) -> Mapping[str, object]:
    return {
        "mentions_per_second": 1,
        "deliveries_per_second": 2,
        "rows_per_second": 3,
        "open_bursts": 4,
        "throttles": throttles,
        "running": {
            "burst": "mention:nova#7",
            "count": 1,
            "followers": 9,
            "shards": 2,
            "finished": False,
            "tiers": {"p2": P2},
            "recipients": {
                "counted_shards": 2,
                "expected": 9,
                "delivered": 0,
                "suppressed": 0,
                "parked": 9,
                "pulled": 0,
                "dead": 0,
                "in_flight": 0,
                "balanced": True,
            },
        },
        "backlog": {"p2": {"slices": 5, "delay_seconds": None}},
        "roles": {},
        "redis": {"state": "ok", "generation": "a"},
        "loading": None,
    }


@pytest.fixture
def demo_page(page: Page, address: str) -> Page:
    page.add_init_script(f"({FAKE_SERVICE})()")
    page.goto(address.replace("/inbox.html", "/demo.html"))
    page.evaluate(SEND, snapshot())
    expect(page.locator("#connection")).to_have_text("live")
    return page


def test_keep_alive_during_a_slow_snapshot_is_no_lost_connection(demo_page: Page) -> None:
    demo_page.evaluate(WATCH)
    demo_page.evaluate("window.send(':')")
    demo_page.evaluate(SEND, {**snapshot(), "open_bursts": 5})
    expect(demo_page.locator("#bursts")).to_have_text("5")
    assert demo_page.evaluate("window.connections") == []
    demo_page.evaluate("window.send('event: trouble\\ndata: {}')")
    expect(demo_page.locator("#connection")).to_have_text("reconnecting")
    assert demo_page.evaluate("window.connections") == ["reconnecting"]


@pytest.mark.parametrize(
    ("throttles", "delay", "button"),
    [
        ([PAUSE], "paused, 5 slices left", "Lift the pause"),
        ([RATE], "slowed, 5 slices left", "Lift the throttle"),
        ([PAUSE, RATE], "paused, 5 slices left", "Lift the pause"),
        ([RATE, PAUSE], "paused, 5 slices left", "Lift the pause"),
        ([RATE, throttle(None, "ramping")], "slowed, 5 slices left", "Lift the throttle"),
        ([throttle(None, "ramping")], "ramping up, 5 slices left", "Pause P2…"),
        ([], "delay unknown", "Pause P2…"),
    ],
)
def test_page_names_a_pause_and_a_rate(demo_page: Page, throttles: Sequence[Throttle], delay: str, button: str) -> None:
    demo_page.evaluate(SEND, snapshot(throttles))
    expect(demo_page.locator(".tier").nth(2).locator(".delay span")).to_have_text(delay)
    expect(demo_page.locator("#pause")).to_have_text(button)


@pytest.mark.parametrize("rate", [None, 500.0])
def test_end_of_a_throttle_is_reported(demo_page: Page, rate: float | None) -> None:
    demo_page.evaluate(SEND, snapshot([throttle(rate)]))
    demo_page.evaluate(SEND, snapshot([throttle(rate, "ramping")]))
    expect(demo_page.locator("#message")).to_have_text("P2 resumes over half a minute.")
