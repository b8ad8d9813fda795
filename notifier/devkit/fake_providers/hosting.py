"""Runs a fake provider behind an HTTP/2 server on the loopback, with public test credentials."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.push import public_test_credentials as test_credentials
from notifier.devkit.fake_providers.apns import FakeApns, TokenCheck
from notifier.devkit.fake_providers.behavior import Behavior, ProviderScript
from notifier.devkit.fake_providers.fake_devices import PUSH_SERVICE_ORIGIN, FakePhones, browser
from notifier.devkit.fake_providers.fcm import FakeFcm
from notifier.devkit.fake_providers.oauth import TokenEndpoint
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.http2.connection import ServerCounts
from notifier.devkit.http2.server import Http2Server, serving
from notifier.domain.ids import Platform
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Post, Reply

# Log of arrived alerts, one JSON line each.

MAX_REMEMBERED_ALERTS = 200_000
"""Number of latest alerts that are remembered to detect repeated ones. They take some 30 MB."""
MAX_READ_BYTES = 64 << 20
"""How much of the end of an existing file is read after a restart."""


@dataclass(slots=True, kw_only=True)
class AlertLog:
    """Writes the alerts of one platform to a file, which several platforms may share."""

    out: BinaryIO
    """Unbuffered and in append mode: each line is one write, and lines of several fakes do not mix."""
    platform: Platform
    clock: Clock
    _arrived: "OrderedDict[tuple[str, str], None]" = field(default_factory=OrderedDict)

    def remember(self, file: Path) -> None:
        """Load the alerts of earlier runs from the file. End a line that a killed fake left incomplete."""
        if not _ends_with_newline(file):
            self.out.write(b"\n")
        for to, id in _earlier_alerts(file, self.platform):
            self._record(to, id)

    def write(self, to: str, *, collapse_id: str, text: str, id: str) -> None:
        line = {
            "at": self.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "platform": str(self.platform),
            "to": to,
            "place": collapse_id,  # a later alert with the same place replaces the earlier one
            "id": id,
            "text": text,
            "again": self._record(to, id),
        }
        self.out.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def _record(self, to: str, id: str) -> bool:
        """Remember the alert and return whether it is a repeated one."""
        is_repeated = (to, id) in self._arrived
        self._arrived[to, id] = None
        if len(self._arrived) > MAX_REMEMBERED_ALERTS:
            self._arrived.popitem(last=False)
        return is_repeated


def _ends_with_newline(file: Path) -> bool:
    with file.open("rb") as lines:
        if not lines.seek(0, SEEK_END):
            return True
        lines.seek(-1, SEEK_END)
        return lines.read() == b"\n"


def _earlier_alerts(file: Path, platform: Platform) -> Iterator[tuple[str, str]]:
    with file.open("rb") as lines:
        size = lines.seek(0, SEEK_END)
        lines.seek(max(0, size - MAX_READ_BYTES))
        for line in lines:
            try:
                alert = json.loads(line)
                if alert["platform"] == platform:
                    yield alert["to"], alert["id"]
            except (ValueError, KeyError, TypeError):  # an incomplete line, or a line of other software
                continue


Fake = FakeApns | FakeFcm | FakePushService


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedFake:
    """A fake provider and the server that runs it."""

    platform: Platform
    fake: Fake
    server: Http2Server

    @property
    def origin(self) -> str:
        return self.server.origin

    @property
    def response_counts(self) -> Mapping[str, int]:
        """Number of responses by reason or status."""
        return {str(outcome): count for outcome, count in dict(self.fake.response_counts).items()}

    @property
    def alert_count(self) -> int:
        return self.fake.phones.alert_count

    @property
    def connection_counts(self) -> ServerCounts:
        return self.server.counts


@contextmanager
def host_fake(
    platform: Platform,
    behavior: Behavior | None = None,
    *,
    port: int = 0,
    out: Path | None = None,
    certificate: Path | None = None,
    clock: Clock | None = None,
) -> Iterator[HostedFake]:
    """Run a fake provider until the block ends. It appends a line per alert to the file `out`."""
    chosen_behavior, used_clock = behavior or Behavior(), clock or SystemClock()
    with _logged_phones(out, platform, used_clock) as phones:
        fake = create_fake(platform, chosen_behavior.script, phones, used_clock)
        handler = _with_stalls(fake, chosen_behavior, used_clock, used_clock.now())
        with serving(handler, chosen_behavior.http2, certificate=certificate, port=port) as server:
            yield HostedFake(platform=platform, fake=fake, server=server)


def create_fake(platform: Platform, script: ProviderScript, phones: FakePhones, clock: Clock) -> Fake:
    """Create a fake that accepts the public test credentials and any device.

    If it rejected unknown devices, a sender that uses a fake by mistake would delete its real devices.
    """
    match platform:
        case Platform.APNS:
            key = test_credentials.fake_apple_key()
            token_check = TokenCheck(keys={key.key_id: key.key.public_key()}, team=key.team_id)
            return FakeApns(token_check=token_check, topics=frozenset(), clock=clock, script=script, phones=phones)
        case Platform.FCM:
            account = test_credentials.fake_service_account()
            token_endpoint = TokenEndpoint(
                email=account.email,
                key_id=account.key_id,
                key=account.key.public_key(),
                audience=account.audience,
            )
            return FakeFcm(
                project=account.project, token_endpoint=token_endpoint, clock=clock, script=script, phones=phones
            )
        case Platform.WEB:
            return FakePushService(
                clock=clock,
                script=script,
                phones=phones,
                accepts_any_host=True,
                find_unknown_browser=lambda path: browser(PUSH_SERVICE_ORIGIN, path),
            )


@contextmanager
def _logged_phones(out: Path | None, platform: Platform, clock: Clock) -> Iterator[FakePhones]:
    if out is None:
        yield FakePhones()
        return
    with out.open("ab", buffering=0) as file:
        alert_log = AlertLog(out=file, platform=platform, clock=clock)
        if out.is_file():  # a pipe cannot be read back
            alert_log.remember(out)
        yield FakePhones(listener=alert_log.write)


def _with_stalls(fake: Fake, behavior: Behavior, clock: Clock, started: datetime) -> Callable[[Post], Reply | NoReply]:
    def handle(post: Post) -> Reply | NoReply:
        reply = fake.answer(post)
        stalls = behavior.stall_window.is_active(clock.now() - started)
        return NoReply(reason="stalled by the script", may_have_arrived=True) if stalls else reply

    return handle
