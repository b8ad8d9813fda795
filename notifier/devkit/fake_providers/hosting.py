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

from notifier.adapters.push import fakes as development
from notifier.adapters.system_clock import SystemClock
from notifier.devkit.fake_providers.apns import Bearers, FakeApns
from notifier.devkit.fake_providers.behaviour import Behaviour, ProviderScript
from notifier.devkit.fake_providers.devices import ORIGIN, FakePhones, browser
from notifier.devkit.fake_providers.fcm import FakeFcm
from notifier.devkit.fake_providers.oauth import Grants
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.http2.connection import ConnectionCounts
from notifier.devkit.http2.server import Http2Server, serving
from notifier.domain.ids import Platform
from notifier.ports.coordination import Clock
from notifier.ports.push import Post, Reply, Silence

# Log of arrived alerts, one JSON line each, for operators and checks.

REMEMBERED = 200_000
"""Number of most recent alerts kept to detect repeated ones. Takes some 30 MB."""
LOOKED_AT = 64 << 20
"""Bytes at the end of an existing file to read after a restart."""


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Writes the alerts of one platform. Several platforms share a file; each line is written at once."""

    out: BinaryIO
    """Unbuffered and in append mode, so that readers see complete lines."""
    platform: Platform
    clock: Clock
    _came: "OrderedDict[tuple[str, str], None]" = field(default_factory=OrderedDict)

    def remember(self, file: Path) -> None:
        """Load the alerts of earlier runs from the file.

        If the fake was killed amid a line, terminate that line first, or the next one would be unreadable as well.
        """
        if not _ends_whole(file):
            self.out.write(b"\n")
        for to, id in _earlier(file, self.platform):
            self._note(to, id)

    def heard(self, to: str, *, place: str, text: str, id: str) -> None:
        line = {
            "at": self.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "platform": str(self.platform),
            "to": to,
            "place": place,
            "id": id,
            "text": text,
            "again": self._note(to, id),
        }
        self.out.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def _note(self, to: str, id: str) -> bool:
        """Remember the alert and return whether it is a repeated one."""
        is_repeated = (to, id) in self._came
        self._came[to, id] = None
        if len(self._came) > REMEMBERED:
            self._came.popitem(last=False)
        return is_repeated


def _ends_whole(file: Path) -> bool:
    with file.open("rb") as lines:
        if not lines.seek(0, SEEK_END):
            return True
        lines.seek(-1, SEEK_END)
        return lines.read() == b"\n"


def _earlier(file: Path, platform: Platform) -> Iterator[tuple[str, str]]:
    with file.open("rb") as lines:
        size = lines.seek(0, SEEK_END)
        lines.seek(max(0, size - LOOKED_AT))
        for line in lines:
            try:
                alert = json.loads(line)
                if alert["platform"] == platform:
                    yield alert["to"], alert["id"]
            except (ValueError, KeyError, TypeError):  # an incomplete line, or one of other software
                continue


Fake = FakeApns | FakeFcm | FakePushService


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    platform: Platform
    fake: Fake
    server: Http2Server

    @property
    def origin(self) -> str:
        return self.server.origin

    @property
    def answered(self) -> Mapping[str, int]:
        """Number of responses by reason or status."""
        return {str(outcome): count for outcome, count in dict(self.fake.answered).items()}

    @property
    def rang(self) -> int:
        return self.fake.phones.rang

    @property
    def tally(self) -> ConnectionCounts:
        return self.server.tally


@contextmanager
def hosted(
    platform: Platform,
    behaviour: Behaviour | None = None,
    *,
    port: int = 0,
    out: Path | None = None,
    certificate: Path | None = None,
    clock: Clock | None = None,
) -> Iterator[Hosted]:
    """Run a fake provider until the block ends. With `out` it appends a line per alert to that file.

    Raises OSError if it cannot listen or write.
    """
    plan, time = behaviour or Behaviour(), clock or SystemClock()
    with _written(out, platform, time) as phones:
        fake = made(platform, plan.script, phones, time)
        answer = _stalling(fake, plan, time, time.now())
        with serving(answer, plan.conduct, certificate=certificate, port=port) as server:
            yield Hosted(platform=platform, fake=fake, server=server)


def made(platform: Platform, script: ProviderScript, phones: FakePhones, clock: Clock) -> Fake:
    """Create a fake that accepts the public test credentials and any device.

    A sender that is run by mistake without its own credentials loses no device.
    """
    match platform:
        case Platform.APNS:
            key = development.apple()
            bearers = Bearers(keys={key.key_id: key.key.public_key()}, team=key.team_id)
            return FakeApns(bearers=bearers, topics=frozenset(), clock=clock, script=script, phones=phones)
        case Platform.FCM:
            account = development.google()
            grants = Grants(
                email=account.email,
                key_id=account.key_id,
                key=account.key.public_key(),
                audience=account.audience,
            )
            return FakeFcm(project=account.project, grants=grants, clock=clock, script=script, phones=phones)
        case Platform.WEB:
            return FakePushService(
                clock=clock,
                script=script,
                phones=phones,
                for_all=True,
                strangers=lambda path: browser(ORIGIN, path),
            )


@contextmanager
def _written(out: Path | None, platform: Platform, clock: Clock) -> Iterator[FakePhones]:
    if out is None:
        yield FakePhones()
        return
    with out.open("ab", buffering=0) as file:
        arrivals = Arrivals(out=file, platform=platform, clock=clock)
        if out.is_file():  # a pipe cannot be read back
            arrivals.remember(out)
        yield FakePhones(heard=arrivals.heard)


def _stalling(fake: Fake, behaviour: Behaviour, clock: Clock, began: datetime) -> Callable[[Post], Reply | Silence]:
    def asked(post: Post) -> Reply | Silence:
        reply = fake.answer(post)
        stalls = behaviour.stalls.holds(clock.now() - began)
        return Silence(reason="it stalls", left=True) if stalls else reply

    return asked
