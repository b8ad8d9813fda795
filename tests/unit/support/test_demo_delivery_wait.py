"""The demo helper waits for the celebrity's first burst and reads complete pages only."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from notifier.domain.errors import NotRunning
from tests.support.demo_process import Demo

OVERVIEW, PEOPLE, INBOX = "/v1/system", "/demo/people", "/v1/inbox"


def running(burst: str, *, finished: bool) -> dict[str, Any]:
    return {"running": {"burst": burst, "finished": finished}}


def inbox(*bursts: str, partial: bool = False) -> dict[str, Any]:
    items = [{"burst": f"id of {burst}", "subject": burst.partition("#")[0]} for burst in bursts]
    return {"items": items, "partial": partial}


@dataclass(slots=True)
class FakeApi:
    """Serves the scripted bodies of each path in order and repeats the last; None is a 404."""

    overviews: Sequence[dict[str, Any]]
    inboxes: Sequence[dict[str, Any] | None]
    requests: list[str] = field(default_factory=list)

    def body(self, path: str) -> dict[str, Any] | None:
        scripts = {OVERVIEW: self.overviews, INBOX: self.inboxes, PEOPLE: [{"people": [{"token": "vip"}]}]}
        script = scripts[path]
        body = script[min(self.requests.count(path), len(script) - 1)]
        self.requests.append(path)
        return body


@contextmanager
def demo_of(api: FakeApi, folder: Path) -> Iterator[Demo]:
    """Yield a demo whose API is a fake and whose process only waits for the end of its input."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = api.body(self.path)
            content = json.dumps(body).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    (folder / "demo.log").touch()
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process,
    ):
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Demo(data=folder / "demo", process=process, url=f"http://127.0.0.1:{server.server_port}", token="t")
        finally:
            server.shutdown()
            thread.join()


def test_delivered_ignores_finished_burst_of_small_account(tmp_path: Path) -> None:
    overviews = [
        {"running": None},
        running("mention:u3#1", finished=True),
        running("mention:nova#1", finished=False),
        running("mention:nova#1", finished=True),
    ]
    api = FakeApi(overviews, [inbox("mention:nova#1")])
    with demo_of(api, tmp_path) as demo:
        demo.wait_until_delivered()
    assert api.requests.count(OVERVIEW) == len(overviews)


def test_delivered_waits_until_inbox_shows_burst(tmp_path: Path) -> None:
    api = FakeApi(
        [running("mention:nova#1", finished=True)],
        [inbox(), inbox("mention:u7#1"), inbox("mention:nova#1", "mention:u7#1")],
    )
    with demo_of(api, tmp_path) as demo:
        demo.wait_until_delivered()
        assert demo.bursts() == ["id of mention:nova#1", "id of mention:u7#1"]


def test_bursts_are_not_read_from_partial_page(tmp_path: Path) -> None:
    api = FakeApi([], [inbox(partial=True), inbox("mention:nova#1")])
    with demo_of(api, tmp_path) as demo:
        assert demo.bursts() == ["id of mention:nova#1"]


def test_unreadable_inbox_is_not_reported_as_empty(tmp_path: Path) -> None:
    with demo_of(FakeApi([], [None]), tmp_path) as demo, pytest.raises(NotRunning, match="status 404"):
        demo.bursts()
