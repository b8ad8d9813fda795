"""`<notifier-inbox>` on a page of another origin that `notifier up` allows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect

from notifier.cli import main
from tests.cli.running_service import Running, start_service
from tests.cli.service_caller import calling
from tests.support.browser.inbox_page import SHOW

pytestmark = pytest.mark.thorough

EMBEDDER = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Another application</title>
<script type="module" src="{api}/static/notifier-inbox.js"></script>
<form></form>
<notifier-inbox src="{api}" style="height: 400px"></notifier-inbox>
</html>
"""

FETCH = """([url, token]) => fetch(url, { headers: { Authorization: `Bearer ${token}` } })
  .then(() => 'read', () => 'kept')"""


class Handler(BaseHTTPRequestHandler):
    """Another application; `api` is the service whose inbox it shows."""

    api = ""

    def do_GET(self) -> None:
        body = EMBEDDER.format(api=Handler.api).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def embedder() -> Iterator[str]:
    """Yield the origin of another application, on its own port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def allowed_origin() -> Iterator[str]:
    with embedder() as origin:
        yield origin


@pytest.fixture(scope="module")
def running(allowed_origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("embedded")
    notifier(
        "fixture", "--followers", "1000", "--universe", "1000", "--celebrities", "1", "--data", str(data), "--json"
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NOTIFIER_ORIGINS", f"https://app.example,{allowed_origin}")
        running = start_service(data, data / "asked-for.json")
    Handler.api = running.ready.url
    try:
        yield running
    finally:
        running.end()


def notifier(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.strip()


@pytest.fixture
def token(running: Running) -> str:
    return notifier("token", "nova", "--data", str(running.data))


@pytest.mark.timeout(120)
def test_page_of_allowed_origin_shows_live_inbox(running: Running, allowed_origin: str, page: Page, token: str) -> None:
    with calling(running.ready, token) as caller:
        page.goto(allowed_origin)
        streams = "/v1/inbox/stream"
        with page.expect_response(lambda response: response.url.endswith(streams) and response.status == 200):
            page.evaluate(SHOW, token)
        row = page.locator("notifier-inbox .row")
        expect(row).to_have_count(0)
        assert caller.post_is_accepted("one")
        expect(row).to_have_count(1)  # by the stream, because the page was loaded before the event
        expect(row.locator(".open")).to_contain_text("mentioned you")
        with page.expect_response(lambda response: response.url.endswith("/v1/inbox/marks")) as mark_response:
            row.locator(".open").press("u")  # a click marks nothing once the row counts as seen
        assert mark_response.value.status == 204
        page.evaluate("document.querySelector('notifier-inbox').token = 'nobody'")
        expect(page.locator("notifier-inbox")).to_contain_text("sign in", ignore_case=True)


@pytest.mark.timeout(120)
def test_page_of_other_origin_gets_neither_element_nor_inbox(running: Running, page: Page, token: str) -> None:
    with embedder() as other_origin:
        page.goto(other_origin)
        assert page.evaluate("customElements.get('notifier-inbox') === undefined")
        assert page.evaluate(FETCH, [f"{running.ready.url}/v1/inbox", token]) == "kept"
