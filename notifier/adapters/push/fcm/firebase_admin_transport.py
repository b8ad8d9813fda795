"""Optional FCM transport that uses Google's `firebase-admin` library.

The library is an extra: `pip install "notifier[firebase-admin]"`. FcmSender interprets the recorded responses, because
the library's exceptions contain less than the responses.

The library retries silently, pauses for minutes between its attempts, and follows redirects. No setting turns this off
or changes the origin. So this module replaces internals of the library, and supports only one minor version.
"""

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field
from datetime import timedelta
from ssl import SSLCertVerificationError
from threading import local
from typing import Any, Self
from uuid import uuid4

import firebase_admin
import requests
from firebase_admin import _http_client, credentials, messaging
from google.auth.exceptions import TransportError
from google.auth.transport import Response
from google.auth.transport.requests import AuthorizedSession, Request
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from notifier.adapters.push.fcm.access_token import token_failure
from notifier.adapters.push.fcm.sender import ORIGIN
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.request_rounds_and_replies import RandomSource
from notifier.domain.push.receipt import Receipt
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Post, Reply

# Token requests without retries. By default google-auth makes three attempts, with sleeps between them.


class TokenRefused(Exception):
    """The token endpoint refused the request."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """Replacement for google-auth's Request that raises TokenRefused instead of allowing a retry."""

    timeout: float
    """Timeout in seconds."""
    request: Request = field(default_factory=Request)

    def __call__(self, *args: Any, **kwargs: Any) -> Response:
        answer: Response = self.request(*args, **{"timeout": self.timeout, **kwargs})
        if answer.status != 200:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            raise TokenRefused(Reply(status=answer.status, headers=headers, body=answer.data))
        return answer


MAX_CONCURRENT_REQUESTS = 32
"""Requests at a time, each in its own thread. At 50 ms each, some 600 a second: about the limit of one core."""
RESPONSE_TIMEOUT = timedelta(seconds=15)
"""Timeout of a request. The library's default is two minutes; Google reduced that of its Node library to this value."""


class _LastReply(local):
    """Answer to the last request of each thread."""

    reply: Reply | None = None

    def take(self) -> Reply | None:
        reply, self.reply = self.reply, None
        return reply


@dataclass(slots=True, kw_only=True)
class FirebaseAdminTransport:
    """Token source and transport of FcmSender, for one process.

    Only the body of a request is used; the library writes path and headers.
    """

    account: ServiceAccount
    app: firebase_admin.App
    clock: Clock
    random: RandomSource
    auth_request: AuthRequest
    max_concurrent: int = MAX_CONCURRENT_REQUESTS
    refused_token: str | None = None
    """Token that Google refused. `ensure_token` fetches a new token, although the refused token has not expired.

    Until then the library keeps the refused token: without any token, each thread would request one.
    """
    _last_reply: _LastReply = field(default_factory=_LastReply)

    @classmethod
    def open(
        cls,
        account_file: bytes,
        *,
        clock: Clock,
        random: RandomSource,
        origin: str = ORIGIN,
        response_timeout: timedelta = RESPONSE_TIMEOUT,
    ) -> Self:
        """Create the transport from a service account file. Raises BadSetting."""
        timeout = response_timeout.total_seconds()
        service_account = ServiceAccount.read(account_file)
        certificate = credentials.Certificate(json.loads(account_file))
        # firebase-admin registers all apps of a process in one table by name, so the name must be unique.
        app = firebase_admin.initialize_app(certificate, {"httpTimeout": timeout}, name=uuid4().hex)
        transport = cls(account=service_account, app=app, clock=clock, random=random, auth_request=AuthRequest(timeout))
        service = messaging._get_messaging_service(app)
        service._fcm_url = f"{origin}/v1/projects/{service_account.project}/messages:send"
        service._client = _http_client.JsonHttpClient(session=transport._session(), retries=False, timeout=timeout)
        return transport

    def close(self) -> None:
        messaging._get_messaging_service(self.app)._client.close()
        firebase_admin.delete_app(self.app)

    def ensure_token(self) -> Receipt | None:
        """Fetch a token if none is valid. Without this call, each sending thread would request one."""
        credential = self.app.credential.get_credential()
        if credential.valid and credential.token != self.refused_token:
            return None
        now, random_number = self.clock.now(), self.random()
        try:
            credential.refresh(self.auth_request)
        except TokenRefused as refused:
            return token_failure(refused.reply, now, random_number)
        except TransportError as error:
            return token_failure(_no_reply(error), now, random_number)
        except Exception:  # the library does not document its errors for a response without a token
            return token_failure(Reply(status=200), now, random_number)
        return None

    def current_token(self) -> str:
        return str(self.app.credential.get_credential().token)

    def forget(self, token: str) -> None:
        self.refused_token = token

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        with ThreadPoolExecutor(self.max_concurrent) as threads:
            pending: set[Future[tuple[Post, Reply | NoReply]]] = set()
            for post in posts:
                pending.add(threads.submit(self._send_one, post))
                if len(pending) >= self.max_concurrent:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in as_completed(pending))

    def _send_one(self, post: Post) -> tuple[Post, Reply | NoReply]:
        try:
            messaging.send(_message(post.body), app=self.app)
        except Exception as error:  # the library does not document its errors for responses that are not from Google
            return post, self._last_reply.take() or _no_reply(error)
        return post, self._last_reply.take() or NoReply(
            reason="the library reported no response", may_have_arrived=True
        )

    def _session(self) -> requests.Session:
        """Create an HTTP session that records each response before the library interprets it."""
        credential = self.app.credential.get_credential()
        session: requests.Session = AuthorizedSession(  # type: ignore[no-untyped-call]  # google-auth's constructor
            credential, refresh_status_codes=(), auth_request=self.auth_request
        )
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=self.max_concurrent))
        session.max_redirects = 0
        session.hooks["response"].append(self._record_reply)
        return session

    def _record_reply(self, response: requests.Response, **_: object) -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._last_reply.reply = Reply(status=response.status_code, headers=headers, body=response.content)


def _message(body: bytes) -> messaging.Message:
    """Convert a message written by FcmSender to an object of the library."""
    content = json.loads(body)["message"]
    android = content["android"]
    message = messaging.Message(
        notification=messaging.Notification(body=content["notification"]["body"]),
        android=messaging.AndroidConfig(
            collapse_key=android.get("collapse_key"),
            priority=android["priority"].lower(),
            ttl=timedelta(seconds=int(android["ttl"].removesuffix("s"))),
            notification=messaging.AndroidNotification(tag=android["notification"]["tag"]),
        ),
        fid=content.get("fid"),
    )
    message.token = content.get("token")  # as an argument it would cause a deprecation warning each time
    return message


_FIELD_PATTERN = re.compile(r"[A-Za-z]+\.[a-z_]+\b")
"""Field name at the beginning of an error message, such as `AndroidConfig.ttl`."""
_ERRORS_BEFORE_SENDING = (
    NewConnectionError,
    ConnectTimeoutError,
    SSLCertVerificationError,
    TransportError,
)
"""Causes of errors that occur before any part of the request is sent."""


def _no_reply(error: Exception) -> NoReply:
    if isinstance(error, ValueError):  # the library rejected the message
        name = _FIELD_PATTERN.match(str(error))  # drop the rest of the message: it may repeat the invalid value
        return NoReply(reason=f"firebase-admin rejects {(name[0] if name else 'the message')}", may_have_arrived=False)
    causes = [*_causes(error)]
    timed_out = any(isinstance(cause, requests.Timeout) for cause in causes)
    # The library renews an expired token before it sends a message. If the renewal fails, the message is not sent.
    if refused := next((cause for cause in causes if isinstance(cause, TokenRefused)), None):
        return NoReply(reason=f"no access token: {refused}", may_have_arrived=False)
    if any(isinstance(cause, _ERRORS_BEFORE_SENDING) for cause in causes):
        return NoReply(reason="can't connect", may_have_arrived=False)
    return NoReply(reason="no response in time" if timed_out else "the connection failed", may_have_arrived=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(reason := getattr(error, "reason", None), BaseException):  # here urllib3 keeps the cause
            yield reason
        error = error.__context__
