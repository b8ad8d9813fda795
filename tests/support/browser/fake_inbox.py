"""A fake inbox with pages, marks and live streams, like the API's."""

import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

TOKEN = "good"
TOP = "top"
"""Cursor of the first page."""
CLOSE = ""
"""Message that ends a stream."""

Item = dict[str, Any]


@dataclass(slots=True)
class Inbox:
    """The inbox of one user and the server's behavior. Every field may change while it serves."""

    items: list[Item] = field(default_factory=list)
    token: str = TOKEN
    status: int = 200
    """If it is not 200, all requests except those for files fail with it."""
    stream_status: int = 200
    stream_refusal: str = "not_found"
    """Problem code of a rejected stream."""
    stream_cut: bool = False
    """Every stream ends after its first bytes, as behind some proxies."""
    retry_after: int | None = None
    """Retry-After of every error, in seconds."""
    poll_interval: int = 1
    """Poll interval of the API's responses, in seconds."""
    gap_status: int = 200
    older_status: int = 200
    marks_status: int = 204
    delayed_change: str = ""
    """Mark or end of a mute that takes effect with a delay."""
    marked: list[str] = field(default_factory=list)
    """Marks in the order in which they took effect."""
    mute_ends: list[str | None] = field(default_factory=list)
    """Ends of mutes in the order in which they took effect."""
    account_preferences: Item = field(
        default_factory=lambda: {
            "volume": "all",
            "push": True,
            "asked": True,
            "quiet_hours": None,
            "time_zone": "UTC",
            "digest_hour": 18,
            "mentions": "all",
        }
    )
    """Account-wide preferences."""
    partial: bool = False
    first_page_rows: int | None = None
    """Rows of the first page, fewer than requested: most of the newest bursts are not visible."""
    badge: Item | None = None
    """Replaces the counted badge."""
    page_gate: threading.Event = field(default_factory=threading.Event)
    """Pages wait while it is cleared."""
    stale: bool = False
    """A waiting page has the content as of the request."""
    requests: list[tuple[str, Item]] = field(default_factory=list)
    """Method and path of each request, with its body or headers."""
    not_modified_count: int = 0
    """Number of pages answered with 304."""
    streams: list["SimpleQueue[str]"] = field(default_factory=list)
    token_count: int = 0
    sent_messages: list[tuple[int, str]] = field(default_factory=list)
    stream_gate: threading.Event = field(default_factory=threading.Event)
    """Streams wait while it is cleared."""
    mark_gate: threading.Event = field(default_factory=threading.Event)
    """Marks wait while it is cleared, before they take effect."""
    covered: dict[str, set[str]] = field(default_factory=dict)
    """Bursts that each token covers."""
    hidden: dict[str, Item] = field(default_factory=dict)
    """Hidden items by burst."""
    kept_unread: set[str] = field(default_factory=set)
    """Bursts marked as unread, which opening the inbox does not change."""

    def __post_init__(self) -> None:
        self.page_gate.set()
        self.stream_gate.set()
        self.mark_gate.set()

    def send(self, kind: str, data: object = None, **more: object) -> None:
        """Send a message to every open stream, and later to streams that resume with an older id."""
        lines = [f"event: {kind}", f"data: {json.dumps(data if data is not None else {})}", f"id: {self.as_of()}"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        self.sent_messages.append((self.token_count, "\n".join(lines) + "\n\n"))
        for stream in self.streams:
            stream.put(self.sent_messages[-1][1])

    def since(self, id: str | None) -> list[str]:
        """Return the messages after an id; a stream without an id gets none."""
        number = self.token_count if id is None else int(id.removeprefix("as-of-"))
        return [text for at, text in self.sent_messages if at > number]

    def raw(self, text: str) -> None:
        for stream in self.streams:
            stream.put(text)

    def arrive(self, item: Item) -> None:
        self.items.insert(0, item)
        self.send("row", item)
        self.send("count", self.count())

    def count(self) -> Item:
        unread = sum(item["unread"] for item in self.items)
        return self.badge or {"count": min(unread, 100), "more": unread > 100}

    def as_of(self) -> str:
        self.token_count += 1
        self.covered[f"as-of-{self.token_count}"] = {item["burst"] for item in self.items}
        return f"as-of-{self.token_count}"

    def page(self, cursor: str | None, limit: int) -> Item:
        if cursor is None and self.first_page_rows is not None:
            items = self.items[: self.first_page_rows]
            fields = {"seen": self.as_of(), "live": None, "badge": self.count(), "partial": False}
            return {"items": items, "next": items[-1]["burst"] if items else TOP, **fields}
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

    def bursts(self, subject: str, first: int, limit: int) -> Item:
        """Return items of one subject from a number on, as the gap route does."""
        items = [item for item in self.items if item["subject"] == subject and item["seq"] >= first]
        return {"items": items[:limit], "next": "more" if len(items) > limit else None, "partial": self.partial}

    def see(self, token: str) -> None:
        for item in self.items:
            item["unread"] &= item["burst"] not in self.covered[token] or item["burst"] in self.kept_unread
        self.send("count", self.count())

    def mark(self, bursts: list[str], mark: str) -> None:
        self.kept_unread = self.kept_unread | set(bursts) if mark == "unread" else self.kept_unread - set(bursts)
        for item in self.items:
            if item["burst"] in bursts and mark in ("read", "unread"):
                item["unread"] = mark == "unread"
        if mark == "hidden":
            self.hidden |= {item["burst"]: item for item in self.items if item["burst"] in bursts}
            self.items = [item for item in self.items if item["burst"] not in bursts]
        else:
            restored = [
                self.hidden.pop(burst) | ({} if mark == "none" else {"unread": mark == "unread"})
                for burst in bursts
                if burst in self.hidden
            ]
            self.items = sorted([*self.items, *restored], key=lambda item: str(item["opened_at"]), reverse=True)
        for burst in bursts:
            marked = [item for item in self.items if item["burst"] == burst]
            self.send("marked", marked[0]) if marked else self.send("hidden", {"burst": burst})
        self.send("count", self.count())

    def silence(self, subject: str) -> None:
        self.items = [item for item in self.items if item["subject"] != subject]
        self.send("reset")
        self.send("count", self.count())

    def calls(self, call: str) -> list[Item]:
        return [details for name, details in self.requests if name.partition("?")[0] == call]


def item(number: int, **changes: Any) -> Item:
    """Build an item; a higher number is newer."""
    opened = datetime.now(UTC) - timedelta(minutes=5 * (1_000 - number))
    return {
        "burst": f"b{number}",
        "subject": "mention:nova",
        "seq": int(opened.timestamp()),
        "opened_at": opened.isoformat().replace("+00:00", "Z"),
        "count": 1,
        "names": ["ada"],
        "more": False,
        "text": "ada mentioned @nova",
        "tweet": f"t{number}",
        "unread": False,
        "digest": None,
    } | changes


def digest(number: int, *texts: str, **changes: Any) -> Item:
    """Build a digest of nova's mentions, newest first."""
    template = item(number)
    summaries = [
        {name: template[name] for name in ("subject", "opened_at", "count", "names", "more", "tweet")} for _ in texts
    ]
    return item(
        number,
        subject="digest:u1",
        count=len(texts),
        names=["nova"],
        text=f"Your digest: {len(texts)} mentions of @nova",
        tweet=None,
        digest={
            "date": str(template["opened_at"])[:10],
            "accounts": [{"account": "nova", "count": len(texts)}],
            "bursts": [summary | {"text": text} for summary, text in zip(summaries, texts, strict=True)],
            "more": False,
        },
        **changes,
    )


def items(count: int, **changes: Any) -> list[Item]:
    return [item(number, **changes) for number in range(999, 999 - count, -1)]
