"""firebase-admin before the fake of FCM, by real HTTP/1.1: one line for all tests of a process, as it takes half a
second to make."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from urllib.parse import urlsplit

from notifier.adapters.push import FcmSender
from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdmin
from notifier.adapters.system_clock import SystemClock
from notifier.devkit.fake_providers import FakeFcm
from notifier.devkit.fake_providers.oauth import Grants
from notifier.devkit.http2.behaviour import Conduct
from notifier.devkit.http2.server import serving
from notifier.ports.push import Post, Reply, Silence
from tests.support.examples import NOON
from tests.support.fakes.clock import ManualClock
from tests.support.push_builders import Google, Wire
from tests.support.push_credentials import EMAIL, GOOGLE_KEY_ID, PROJECT, TOKEN_URI, google_key, service_account


@dataclass(slots=True, kw_only=True)
class Line:
    origin: str
    admin: FirebaseAdmin
    grants: Grants
    asked: Callable[[Post], Reply | Silence]
    """By the server; each test has its own."""
    server: ExitStack
    stall: Callable[[], None]
    """It answers nobody from here on."""

    def hang_up(self) -> None:
        """Once it has a token. The next test gets another."""
        self.admin.ensure()
        line.cache_clear()
        self.server.close()


@dataclass(slots=True, kw_only=True)
class ByFirebaseAdmin(Google):
    line: Line

    @property
    def hang_up(self) -> Callable[[], None]:
        return self.line.hang_up


@cache
def line() -> Line:
    return another()


def another(**other: timedelta) -> Line:
    def asked(post: Post) -> Reply | Silence:
        return found.asked(post)

    stack = ExitStack()
    server = stack.enter_context(serving(asked))
    account = service_account(server.origin + urlsplit(TOKEN_URI).path)
    admin = FirebaseAdmin.open(account, clock=SystemClock(), chance=lambda: 0.0, origin=server.origin, **other)
    # Whatever the account's file says, google-auth signs for this audience.
    grants = Grants(email=EMAIL, key_id=GOOGLE_KEY_ID, key=google_key().public_key(), audience=TOKEN_URI)
    found = Line(
        origin=server.origin,
        admin=admin,
        grants=grants,
        asked=lambda post: Reply(status=500),
        server=stack,
        stall=lambda: server.behave(Conduct(stalls=True)),
    )
    return found


def by_firebase_admin(at_once: int = 1, found: Line | None = None) -> ByFirebaseAdmin:
    found, clock = found or line(), ManualClock(NOON)
    # The library goes by the system's clock where tokens are concerned, so Google does, too.
    theirs = ManualClock(SystemClock().now())
    fake = FakeFcm(project=PROJECT, grants=found.grants, clock=theirs)
    wire = Wire(fake.answer)

    def asked(post: Post) -> Reply | Silence:
        wire.sent.append(post)
        return wire.instead(post) or fake.answer(post)

    found.asked = asked
    tokens = replace(found.admin, clock=clock, at_once=at_once)
    return ByFirebaseAdmin(
        clock=clock, theirs=theirs, fake=fake, wire=wire, sender=FcmSender(tokens=tokens), line=found
    )
