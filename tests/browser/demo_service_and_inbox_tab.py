"""A real demo, used through HTTP and a browser; each mention is a row."""

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
from playwright.sync_api import Request as PageRequest

from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.api.demo.traffic import mention_batch
from notifier.cli.running_service import Ready, read_ready
from notifier.config import Settings
from notifier.domain.ids import UserId
from tests.support.browser.inbox_page import InboxPage

FOLLOWERS = 100_000
"""The most followers for which collapsing may be switched off."""
TOKEN_LIFETIME = timedelta(hours=1)


def active_users(count: int) -> Sequence[str]:
    """Return users who were active today, follow nova and mute no account, by the formulas of the fixture."""
    active_members = (
        member for member in range(100, FOLLOWERS) if (member * 619 + 17) % 1000 < 50 and (member + 1) % 211
    )
    return [f"u{next(active_members)}" for _ in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    data: Path

    @property
    def ready(self) -> Ready:
        return read_ready(self.data)

    def mention(self, *account: str, author: str = "ada") -> None:
        """Publish a mention; it is accepted when this returns, and delivered soon."""
        body = mention_batch(account, now=datetime.now(UTC), new_id=lambda: token_hex(8), author=author)
        kind = "application/cloudevents-batch+json"
        self._ask("/v1/events", self.ready.service_key, body=json.dumps(body).encode(), kind=kind)

    def token(self, user: str) -> str:
        return issue_token(installation_keys(Settings(data=self.data)), UserId(user), datetime.now(UTC), TOKEN_LIFETIME)

    def page_of(self, user: str) -> Any:
        return self._ask("/v1/inbox?limit=100", self.token(user))

    def texts(self, user: str) -> list[str]:
        return [item["text"] for item in self.page_of(user)["items"]]

    def preferences(self, user: str) -> Any:
        return self._ask("/v1/preferences", self.token(user))["preferences"]

    def is_suppressed(self, account: str, rule: str, *, within: float) -> bool:
        """Return whether fan-out suppresses followers of the account by the rule, within so many seconds."""
        arguments = ["notifier", "audience", f"@{account}", "--json", "--data", str(self.data)]
        until = monotonic() + within
        while monotonic() < until:
            result = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, check=True, text=True)
            if json.loads(result.stdout)["suppressed"].get(rule):
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
        with urlopen(Request(self.ready.url + path, data=body, headers=headers), timeout=10) as response:
            return json.load(response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab(InboxPage):
    """The inbox page of one user, in a browser tab."""

    served: Served
    user: str
    streams: list[PageRequest]
    """Every stream request of the page."""

    def live(self) -> "Tab":
        """Open the page, and wait until its rows have been seen and its stream is open."""
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
    streams: list[PageRequest] = []
    page.on("request", lambda request: streams.append(request) if request.url.endswith("/stream") else None)
    return Tab(page=page, address=f"{served.ready.url}/static/inbox.html", served=served, user=user, streams=streams)
