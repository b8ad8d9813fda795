"""An inbox server that a test plays on: pages, marks and a live stream as the API has them, and what can go wrong."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import parse_qs, urlsplit

STATIC = Path(__file__).resolve().parents[2] / "api" / "static"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
TOKEN = "good"
TOP = "top"
"""The cursor to the first of all."""
CLOSE = ""
"""Said to a stream, ends it."""

Item = dict[str, Any]


@dataclass(slots=True)
class Inbox:
    """What one person has, and how the server behaves. Every field may be changed while it serves."""

    items: list[Item] = field(default_factory=list)
    token: str = TOKEN
    status: int = 200
    """Of every answer that isn't a file."""
    stream_status: int = 200
    older_status: int = 200
    marks_status: int = 204
    slow: str = ""
    """A mark that takes a while to arrive."""
    marked: list[str] = field(default_factory=list)
    """Marks in the order in which they came into force."""
    partial: bool = False
    passed: bool = False
    """The first page is empty, and has a next one: what is newest may not be seen."""
    badge: Item | None = None
    """Instead of the one counted."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Closed, pages wait."""
    stale: bool = False
    """A page that waits is as it was when it was asked for."""
    asked: list[tuple[str, Item]] = field(default_factory=list)
    """Method and path, with the body or the headers."""
    lines: list["SimpleQueue[str]"] = field(default_factory=list)
    issued: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)
    line_gate: threading.Event = field(default_factory=threading.Event)
    """Closed, streams wait."""
    covered: dict[str, set[str]] = field(default_factory=dict)
    """Token to what it could show."""
    gone: dict[str, Item] = field(default_factory=dict)
    """Hidden."""
    kept: set[str] = field(default_factory=set)
    """Marked as unread: looking doesn't change that."""

    def __post_init__(self) -> None:
        self.gate.set()
        self.line_gate.set()

    def say(self, kind: str, data: object = None, **more: object) -> None:
        """To every stream there is, and later to whoever comes with an older id."""
        lines = [f"event: {kind}", f"data: {json.dumps(data if data is not None else {})}", f"id: {self.as_of()}"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        self.told.append((self.issued, "\n".join(lines) + "\n\n"))
        for line in self.lines:
            line.put(self.told[-1][1])

    def since(self, id: str | None) -> list[str]:
        """Nothing is repeated to whoever has no id."""
        number = self.issued if id is None else int(id.removeprefix("as-of-"))
        return [text for at, text in self.told if at > number]

    def raw(self, text: str) -> None:
        for line in self.lines:
            line.put(text)

    def arrive(self, item: Item) -> None:
        self.items.insert(0, item)
        self.say("row", item)
        self.say("count", self.count())

    def count(self) -> Item:
        unread = sum(item["unread"] for item in self.items)
        return self.badge or {"count": min(unread, 100), "more": unread > 100}

    def as_of(self) -> str:
        self.issued += 1
        self.covered[f"as-of-{self.issued}"] = {item["burst"] for item in self.items}
        return f"as-of-{self.issued}"

    def page(self, cursor: str | None, limit: int) -> Item:
        if cursor is None and self.passed:
            rest = {"next": TOP, "seen": self.as_of(), "live": None, "badge": self.count(), "partial": False}
            return {"items": [], **rest}
        start = 1 + [item["burst"] for item in self.items].index(cursor) if cursor not in (None, TOP) else 0
        end = start + limit
        if self.partial:
            nothing = dict.fromkeys(("next", "seen", "live", "badge"))
            return {"items": self.items[start:end], "partial": True, **nothing}
        following = self.items[end - 1]["burst"] if end < len(self.items) else None
        token = self.as_of()
        return {
            "items": self.items[start:end],
            "next": following,
            "seen": token,
            "live": None if start else token,
            "badge": self.count(),
            "partial": False,
        }

    def see(self, token: str) -> None:
        for item in self.items:
            item["unread"] &= item["burst"] not in self.covered[token] or item["burst"] in self.kept
        self.say("count", self.count())

    def mark(self, bursts: list[str], mark: str) -> None:
        self.kept = self.kept | set(bursts) if mark == "unread" else self.kept - set(bursts)
        for item in self.items:
            if item["burst"] in bursts and mark in ("read", "unread"):
                item["unread"] = mark == "unread"
        if mark == "hidden":
            self.gone |= {item["burst"]: item for item in self.items if item["burst"] in bursts}
            self.items = [item for item in self.items if item["burst"] not in bursts]
        else:
            back = [
                self.gone.pop(burst) | ({} if mark == "none" else {"unread": mark == "unread"})
                for burst in bursts
                if burst in self.gone
            ]
            self.items = sorted([*self.items, *back], key=lambda item: str(item["opened_at"]), reverse=True)
        for burst in bursts:
            marked = [item for item in self.items if item["burst"] == burst]
            self.say("marked", marked[0]) if marked else self.say("hidden", {"burst": burst})
        self.say("count", self.count())

    def calls(self, call: str) -> list[Item]:
        return [more for name, more in self.asked if name.partition("?")[0] == call]


def item(number: int, **changes: Any) -> Item:
    """The higher the number, the newer."""
    opened = datetime.now(UTC) - timedelta(minutes=5 * (1_000 - number))
    return {
        "burst": f"b{number}",
        "subject": "mention:nova",
        "opened_at": opened.isoformat().replace("+00:00", "Z"),
        "count": 1,
        "names": ["ada"],
        "more": False,
        "text": "ada mentioned @nova",
        "tweet": f"t{number}",
        "unread": False,
    } | changes


def items(count: int, **changes: Any) -> list[Item]:
    return [item(number, **changes) for number in range(999, 999 - count, -1)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    inbox: Inbox

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if not url.path.startswith("/v1/"):
            return self._file(url.path)
        self.inbox.asked.append((f"GET {self.path}", dict(self.headers)))
        if self._refused():
            return None
        match url.path:
            case "/v1/inbox":
                return self._page({name: values[0] for name, values in parse_qs(url.query).items()})
            case "/v1/inbox/unread":
                return self._answer(200, self.inbox.count())
            case "/v1/inbox/stream":
                return self._stream()
        return self._answer(404, {"code": "not_found"})

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.inbox.asked.append((f"PUT {self.path}", body))
        if self._refused():
            return None
        if self.path == "/v1/inbox/seen":
            self.inbox.see(body["token"])
        elif self.inbox.marks_status != 204:
            return self._answer(self.inbox.marks_status, {"code": "store_unavailable"})
        else:
            if body["mark"] == self.inbox.slow:
                time.sleep(0.3)
            self.inbox.mark(body["bursts"], body["mark"])
            self.inbox.marked.append(body["mark"])
        return self._answer(204, None)

    def _refused(self) -> bool:
        if self.headers["Authorization"] != f"Bearer {self.inbox.token}":
            self._answer(401, {"code": "bad_token"})
        elif self.inbox.status != 200:
            self._answer(self.inbox.status, {"code": "store_unavailable"})
        else:
            return False
        return True

    def _page(self, query: dict[str, str]) -> None:
        early = self.inbox.page(query.get("cursor"), int(query.get("limit", "20"))) if self.inbox.stale else None
        self.inbox.gate.wait(20)
        if "cursor" in query and self.inbox.older_status != 200:
            return self._answer(self.inbox.older_status, {"code": "store_unavailable"})
        page = early or self.inbox.page(query.get("cursor"), int(query.get("limit", "20")))
        shown = {name: value for name, value in page.items() if name not in ("seen", "live")}
        tag = f'W/"{hash(json.dumps(shown))}"'
        if self.headers["If-None-Match"] == tag:
            return self._answer(304, None, ETag=tag)
        return self._answer(200, page, ETag=tag)

    def _stream(self) -> None:
        if self.inbox.stream_status != 200:
            return self._answer(self.inbox.stream_status, {"code": "not_found"})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        line: SimpleQueue[str] = SimpleQueue()
        self.inbox.line_gate.wait(20)
        for text in (": hello\n\n", *self.inbox.since(self.headers["Last-Event-ID"])):
            line.put(text)
        self.inbox.lines.append(line)
        try:
            for text in said(line):
                self.wfile.write(text.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page has gone
        finally:
            self.inbox.lines.remove(line)

    def _answer(self, status: int, body: object, **headers: str) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "X-Poll-Interval": "1", **headers}.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _file(self, path: str) -> None:
        found = STATIC / path.removeprefix("/static/")
        content = found.read_bytes() if found.is_file() else b""
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", KINDS.get(found.suffix, "text/plain"))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def said(line: "SimpleQueue[str]") -> Iterator[str]:
    while True:
        try:
            text = line.get(timeout=15)
        except Empty:
            text = ": beat\n\n"
        if text == CLOSE:
            return
        yield text


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A page that was closed is no error."""


@contextmanager
def serving(inbox: Inbox) -> Iterator[str]:
    """The address of the element's bare page; it is served in threads of its own."""
    server = Server(("127.0.0.1", 0), type("Serving", (Handler,), {"inbox": inbox}))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/static/inbox.html"
    finally:
        server.shutdown()
        server.server_close()
