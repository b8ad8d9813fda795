"""HTTP server of a fake inbox, which can fail, delay responses and end streams."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.browser.fake_inbox import CLOSE, Inbox

STATIC = Path(__file__).resolve().parents[3] / "notifier" / "api" / "static"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"

GAP = re.compile("/v1/subjects/([^/]+)/bursts")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    inbox: Inbox

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not url.path.startswith("/v1/"):
            return self._file(url.path)
        self.inbox.requests.append((f"GET {self.path}", dict(self.headers)))
        if self._refused():
            return None
        match url.path:
            case "/v1/inbox":
                return self._page({name: values[0] for name, values in parse_qs(url.query).items()})
            case "/v1/inbox/unread":
                return self._answer(200, self.inbox.count())
            case "/v1/inbox/stream":
                return self._stream()
            case "/v1/preferences":
                return self._answer(200, {"preferences": []} | self.inbox.account_preferences)
        if gap := GAP.fullmatch(url.path):
            return self._gap(unquote(gap[1]), parse_qs(url.query))
        return self._answer(404, {"code": "not_found"})

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.inbox.requests.append((f"PUT {self.path}", body))
        if self._refused():
            return None
        if self.path == "/v1/inbox/seen":
            self.inbox.see(body["token"])
        elif self.inbox.marks_status != 204:
            return self._answer(self.inbox.marks_status, {"code": "store_unavailable"})
        else:
            self.inbox.mark_gate.wait(20)
            if body["mark"] == self.inbox.delayed_change:
                time.sleep(0.3)
            self.inbox.mark(body["bursts"], body["mark"])
            self.inbox.marked.append(body["mark"])
        return self._answer(204, None)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.inbox.requests.append((f"PATCH {self.path}", body))
        if self._refused():
            return None
        if self.inbox.marks_status != 204:
            return self._answer(self.inbox.marks_status, {"code": "store_unavailable"})
        if self.path == "/v1/preferences":
            self.inbox.account_preferences |= body
            return self._answer(200, self.inbox.account_preferences)
        if "volume" in body:
            self.inbox.silence(unquote(self.path.rpartition("/")[2]))
            return self._answer(200, body)
        if body["muted_until"] == self.inbox.delayed_change:
            time.sleep(0.3)
        self.inbox.mute_ends.append(body["muted_until"])
        if body["muted_until"]:
            self.inbox.silence(unquote(self.path.rpartition("/")[2]))
        return self._answer(200, {"muted_until": body["muted_until"]})

    def _refused(self) -> bool:
        if self.headers["Authorization"] != f"Bearer {self.inbox.token}":
            self._answer(401, {"code": "bad_token"})
        elif self.inbox.status != 200:
            self._answer(self.inbox.status, {"code": "store_unavailable"})
        else:
            return False
        return True

    def _page(self, query: dict[str, str]) -> None:
        cursor, limit = query.get("cursor"), int(query.get("limit", "20"))
        early = deepcopy(self.inbox.page(cursor, limit)) if self.inbox.stale else None
        self.inbox.page_gate.wait(20)
        if "cursor" in query and self.inbox.older_status != 200:
            return self._answer(self.inbox.older_status, {"code": "store_unavailable"})
        page = early or self.inbox.page(cursor, limit)
        shown = {name: value for name, value in page.items() if name not in ("seen", "live")}
        tag = f'W/"{hash(json.dumps(shown))}"'
        if self.headers["If-None-Match"] == tag:
            self.inbox.not_modified_count += 1
            return self._answer(304, None, ETag=tag)
        return self._answer(200, page, ETag=tag)

    def _gap(self, subject: str, query: dict[str, list[str]]) -> None:
        if self.inbox.gap_status != 200:
            return self._answer(self.inbox.gap_status, {"code": "not_found"})
        return self._answer(200, self.inbox.bursts(subject, int(query["from"][0]), int(query["limit"][0])))

    def _stream(self) -> None:
        if self.inbox.stream_status != 200:
            return self._answer(self.inbox.stream_status, {"code": self.inbox.stream_refusal})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        stream: SimpleQueue[str] = SimpleQueue()
        self.inbox.stream_gate.wait(20)
        for text in (": hello\n\n", *self.inbox.since(self.headers["Last-Event-ID"])):
            stream.put(text)
        if self.inbox.stream_cut:
            stream.put(CLOSE)
        self.inbox.streams.append(stream)
        try:
            for text in messages(stream):
                self.wfile.write(text.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed
        finally:
            self.inbox.streams.remove(stream)

    def _answer(self, status: int, body: object, **headers: str) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", "X-Poll-Interval": str(self.inbox.poll_interval), **headers}
        if status >= 400 and self.inbox.retry_after is not None:
            headers["Retry-After"] = str(self.inbox.retry_after)
        for name, value in headers.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _file(self, path: str) -> None:
        file = STATIC / path.removeprefix("/static/")
        content = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", KINDS.get(file.suffix, "text/plain"))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def messages(stream: "SimpleQueue[str]") -> Iterator[str]:
    while True:
        try:
            text = stream.get(timeout=15)
        except Empty:
            text = ": beat\n\n"
        if text == CLOSE:
            return
        yield text


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of closed pages."""


@contextmanager
def serving(inbox: Inbox) -> Iterator[str]:
    """Serve in background threads, and yield the address of the page with the bare element."""
    server = Server(("127.0.0.1", 0), type("Serving", (Handler,), {"inbox": inbox}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/static/inbox.html"
    finally:
        server.shutdown()
        server.server_close()
