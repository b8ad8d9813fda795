"""The fakes as they ship: each behind an HTTP/2 server of the loopback, for senders with the credentials that everybody
knows."""

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

# Arrivals: a line for each alert that came to a phone, for people to read and checks to count.

REMEMBERED = 200_000
"""Alerts at phones, the last ones, for which it is known whether they came before; some 30 MB."""
LOOKED_AT = 64 << 20
"""Bytes at the end of a file in which an earlier life left its lines."""


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Of one platform; several write into one file, a line at a time."""

    out: BinaryIO
    """Unbuffered, and appended to: whoever reads finds whole lines."""
    platform: Platform
    clock: Clock
    _came: "OrderedDict[tuple[str, str], None]" = field(default_factory=OrderedDict)

    def remember(self, file: Path) -> None:
        """What came in an earlier life: a fake that was killed knows what it has rung. A line over which it was killed
        ends here, or the next one would be lost with it."""
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
        """Whether it came before."""
        again = (to, id) in self._came
        self._came[to, id] = None
        if len(self._came) > REMEMBERED:
            self._came.popitem(last=False)
        return again


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
                said = json.loads(line)
                if said["platform"] == platform:
                    yield said["to"], said["id"]
            except (ValueError, KeyError, TypeError):  # the rest of a line, or another's
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
        """How often, by what was said."""
        return {str(word): count for word, count in dict(self.fake.answered).items()}

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
    """While the block lasts. With `out` each alert that arrives is a line there. Raises OSError where it can't listen,
    or can't write."""
    plays, time = behaviour or Behaviour(), clock or SystemClock()
    with _written(out, platform, time) as phones:
        fake = made(platform, plays.script, phones, time)
        asked = _stalling(fake, plays, time, time.now())
        with serving(asked, plays.conduct, certificate=certificate, port=port) as server:
            yield Hosted(platform=platform, fake=fake, server=server)


def made(platform: Platform, script: ProviderScript, phones: FakePhones, clock: Clock) -> Fake:
    """It takes the credentials that everybody knows, and anybody's devices: who forgot to set his own loses none."""
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
        if out.is_file():  # and no pipe
            arrivals.remember(out)
        yield FakePhones(heard=arrivals.heard)


def _stalling(fake: Fake, behaviour: Behaviour, clock: Clock, began: datetime) -> Callable[[Post], Reply | Silence]:
    def asked(post: Post) -> Reply | Silence:
        reply = fake.answer(post)
        stalls = behaviour.stalls.holds(clock.now() - began)
        return Silence(reason="it stalls", left=True) if stalls else reply

    return asked
