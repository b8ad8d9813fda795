"""A real demo of a few people, as the tweet service and a person with a browser meet it: each mention is a row."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any
from urllib.request import Request, urlopen

from playwright.sync_api import BrowserContext, Page, expect
from playwright.sync_api import Request as Asked

from notifier.api.auth.identity import issue
from notifier.api.auth.service_keys import keys_of
from notifier.api.demo.traffic import letter
from notifier.cli.http import Ready, read_ready
from notifier.config import Settings
from notifier.domain.ids import UserId
from tests.support.browser.page import Shown

FOLLOWERS = 100_000
"""The most for whom collapsing may be switched off."""
AS_LONG = timedelta(hours=1)


def active(many: int) -> Sequence[str]:
    """People who were here today, each of whom follows nova and mutes nobody, by the formulas of the fixture."""
    here = (m for m in range(100, FOLLOWERS) if (m * 619 + 17) % 1000 < 50 and (m + 1) % 211)
    return [f"u{next(here)}" for _ in range(many)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    data: Path

    @property
    def ready(self) -> Ready:
        return read_ready(self.data)

    def mention(self, *whom: str, author: str = "ada") -> None:
        """Accepted when it returns, and delivered soon."""
        body = letter(whom, now=datetime.now(UTC), fresh=lambda: token_hex(8), author=author)
        kind = "application/cloudevents-batch+json"
        self._ask("/v1/events", self.ready.service_key, body=json.dumps(body).encode(), kind=kind)

    def token(self, user: str) -> str:
        return issue(keys_of(Settings(data=self.data)), UserId(user), datetime.now(UTC), AS_LONG)

    def page_of(self, user: str) -> Any:
        return self._ask("/v1/inbox?limit=100", self.token(user))

    def texts(self, user: str) -> list[str]:
        return [item["text"] for item in self.page_of(user)["items"]]

    def preferences(self, user: str) -> Any:
        return self._ask("/v1/preferences", self.token(user))["preferences"]

    def left_out(self, whom: str, rule: str, *, within: float) -> bool:
        """Whether fan-out leaves somebody out by the rule, after so many seconds at the most."""
        asked = ["notifier", "audience", f"@{whom}", "--json", "--data", str(self.data)]
        until = monotonic() + within
        while monotonic() < until:
            found = subprocess.run([sys.executable, "-m", *asked], capture_output=True, check=True, text=True)
            if json.loads(found.stdout)["suppressed"].get(rule):
                return True
        return False

    def badge(self, user: str) -> int:
        return int(self._ask("/v1/inbox/unread", self.token(user))["count"])

    def kill(self, role: str) -> int:
        pid = self.ready.pids[role]
        os.kill(pid, signal.SIGKILL)
        return pid

    def _ask(self, path: str, token: str, *, body: bytes | None = None, kind: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        with urlopen(Request(self.ready.url + path, data=body, headers=headers), timeout=10) as answer:
            return json.load(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab(Shown):
    """The bare page of one person."""

    served: Served
    user: str
    streams: list[Asked]
    """Every one that the page has asked for."""

    def live(self) -> "Tab":
        """With rows that have been looked at, and a stream."""
        self.open(token=self.served.token(self.user))
        expect(self.rows.first).to_be_visible()
        self.until(lambda: self.streams)
        expect(self.badge).to_be_hidden()
        return self

    @property
    def texts(self) -> list[str]:
        return self.page.locator("notifier-inbox .row .text").all_inner_texts()

    def row(self, author: str) -> Any:
        return self.rows.filter(has_text=f"{author} mentioned")


def tab(served: Served, context: BrowserContext, user: str, page: Page | None = None) -> Tab:
    page = page or context.new_page()
    streams: list[Asked] = []
    page.on("request", lambda asked: streams.append(asked) if asked.url.endswith("/stream") else None)
    return Tab(page=page, address=f"{served.ready.url}/static/inbox.html", served=served, user=user, streams=streams)
