"""Connects firebase-admin to the fake FCM by HTTP/1.1.

Each process has one connection for all its tests, because creating it takes half a second.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from urllib.parse import urlsplit

from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.push import FcmSender
from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdminTransport
from notifier.devkit.fake_providers import FakeFcm
from notifier.devkit.fake_providers.oauth import TokenEndpoint
from notifier.devkit.http2.connection import Http2Behavior
from notifier.devkit.http2.server import serving
from notifier.ports.push import NoReply, Post, Reply
from tests.support.apns_and_fcm_senders import Google, Wire
from tests.support.domain_examples import NOON
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.push_credentials import (
    GOOGLE_EMAIL,
    GOOGLE_KEY_ID,
    GOOGLE_PROJECT,
    TOKEN_URI,
    fake_google_key,
    service_account,
)


@dataclass(slots=True, kw_only=True)
class AdminConnection:
    origin: str
    admin: FirebaseAdminTransport
    token_endpoint: TokenEndpoint
    answer: Callable[[Post], Reply | NoReply]
    """Answers the server's requests; each test sets its own."""
    server: ExitStack
    stall: Callable[[], None]
    """Stop answering any request."""

    def hang_up(self) -> None:
        """Close the server once the client has a token. The next test gets a new one."""
        self.admin.ensure_token()
        shared_connection.cache_clear()
        self.server.close()


@dataclass(slots=True, kw_only=True)
class ByFirebaseAdmin(Google):
    connection: AdminConnection

    @property
    def hang_up(self) -> Callable[[], None]:
        return self.connection.hang_up


@cache
def shared_connection() -> AdminConnection:
    return new_connection()


def new_connection(**options: timedelta) -> AdminConnection:
    def answer(post: Post) -> Reply | NoReply:
        return admin_connection.answer(post)

    stack = ExitStack()
    server = stack.enter_context(serving(answer))
    account = service_account(server.origin + urlsplit(TOKEN_URI).path)
    admin = FirebaseAdminTransport.open(
        account, clock=SystemClock(), random=lambda: 0.0, origin=server.origin, **options
    )
    # google-auth always signs for this audience, whatever the account's file says.
    token_endpoint = TokenEndpoint(
        email=GOOGLE_EMAIL, key_id=GOOGLE_KEY_ID, key=fake_google_key().public_key(), audience=TOKEN_URI
    )
    admin_connection = AdminConnection(
        origin=server.origin,
        admin=admin,
        token_endpoint=token_endpoint,
        answer=lambda post: Reply(status=500),
        server=stack,
        stall=lambda: server.behave(Http2Behavior(never_responds=True)),
    )
    return admin_connection


def by_firebase_admin(max_concurrent: int = 1, connection: AdminConnection | None = None) -> ByFirebaseAdmin:
    connection, clock = connection or shared_connection(), ManualClock(NOON)
    # The library uses the system clock for tokens, so the fake Google must, too.
    provider_clock = ManualClock(SystemClock().now())
    fake = FakeFcm(project=GOOGLE_PROJECT, token_endpoint=connection.token_endpoint, clock=provider_clock)
    wire = Wire(fake.answer)

    def answer(post: Post) -> Reply | NoReply:
        wire.sent.append(post)
        return wire.override(post) or fake.answer(post)

    connection.answer = answer
    tokens = replace(connection.admin, clock=clock, max_concurrent=max_concurrent)
    return ByFirebaseAdmin(
        clock=clock,
        provider_clock=provider_clock,
        fake=fake,
        wire=wire,
        sender=FcmSender(transport=tokens),
        connection=connection,
    )
