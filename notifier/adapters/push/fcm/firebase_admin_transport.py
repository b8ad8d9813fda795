"""Google's own sender, `firebase-admin`, in the place of our tokens and our transport, for those who want the official.

An extra, `pip install "notifier[firebase-admin]"`: nothing else imports this module. Letters are written, and their
answers read, by `Fcm`: exceptions of the library know less than the answers that they are made from.

The library tries again in hiding, pauses for minutes between its tries, and follows redirects. It has no setting
against that, and none for where it sends, so this reaches into it, and is for one minor version.
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

from notifier.adapters.push.fcm.access_token import trouble
from notifier.adapters.push.fcm.sender import ORIGIN
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.requests import Chance
from notifier.domain.push.receipt import Receipt
from notifier.ports.coordination import Clock
from notifier.ports.push import Post, Reply, Silence

# Google's token endpoint as google-auth asks it, but once: by itself it asks three times, and sleeps between.


class TokenRefused(Exception):
    """No token; and what was answered."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """In the place of google-auth's Request. Raises Refused where that would look whether to try again."""

    within: float
    """Seconds."""
    request: Request = field(default_factory=Request)

    def __call__(self, *args: Any, **kwargs: Any) -> Response:
        answer: Response = self.request(*args, **{"timeout": self.within, **kwargs})
        if answer.status != 200:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            raise TokenRefused(Reply(status=answer.status, headers=headers, body=answer.data))
        return answer


AT_ONCE = 32
"""Letters on their way, each with a thread: at 50 ms some 600 a second, which is about what a core can send so."""
ANSWERS_WITHIN = timedelta(seconds=15)
"""By itself it waits for two minutes. Google's sender for Node went down to this."""


class _Heard(local):
    """By each thread, in answer to its last letter."""

    reply: Reply | None = None

    def taken(self) -> Reply | None:
        reply, self.reply = self.reply, None
        return reply


@dataclass(slots=True, kw_only=True)
class FirebaseAdmin:
    """Tokens and a Transport for Fcm, one process's. Of a letter it takes the body; the rest it writes itself."""

    account: ServiceAccount
    app: firebase_admin.App
    clock: Clock
    chance: Chance
    asking: AuthRequest
    at_once: int = AT_ONCE
    refused: str | None = None
    """A token that is asked for anew before it ends. The library keeps it until then: without any, each of the threads
    would ask for one."""
    _heard: _Heard = field(default_factory=_Heard)

    @classmethod
    def open(
        cls,
        account: bytes,
        *,
        clock: Clock,
        chance: Chance,
        origin: str = ORIGIN,
        answer: timedelta = ANSWERS_WITHIN,
    ) -> Self:
        """For the file of a service account. Raises BadSetting, in the words in which ours does."""
        within = answer.total_seconds()
        read = ServiceAccount.read(account)
        certificate = credentials.Certificate(json.loads(account))
        # All apps of a process are in one table of firebase-admin's, by name.
        app = firebase_admin.initialize_app(certificate, {"httpTimeout": within}, name=uuid4().hex)
        made = cls(account=read, app=app, clock=clock, chance=chance, asking=AuthRequest(within))
        service = messaging._get_messaging_service(app)
        service._fcm_url = f"{origin}/v1/projects/{read.project}/messages:send"
        service._client = _http_client.JsonHttpClient(session=made._session(), retries=False, timeout=within)
        return made

    def close(self) -> None:
        messaging._get_messaging_service(self.app)._client.close()
        firebase_admin.delete_app(self.app)

    def ensure(self) -> Receipt | None:
        """As ours: asks for a token where there is none that is still good, once, and not from each thread."""
        credential = self.app.credential.get_credential()
        if credential.valid and credential.token != self.refused:
            return None
        now, chance = self.clock.now(), self.chance()
        try:
            credential.refresh(self.asking)
        except TokenRefused as refused:
            return trouble(refused.reply, now, chance)
        except TransportError as error:
            return trouble(_silence(error), now, chance)
        except Exception:  # of what it makes of an answer without a token, there is no list
            return trouble(Reply(status=200), now, chance)
        return None

    def current(self) -> str:
        return str(self.app.credential.get_credential().token)

    def forget(self, token: str) -> None:
        self.refused = token

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | Silence]]:
        with ThreadPoolExecutor(self.at_once) as threads:
            away: set[Future[tuple[Post, Reply | Silence]]] = set()
            for post in posts:
                away.add(threads.submit(self._exchanged, post))
                if len(away) >= self.at_once:
                    done, away = wait(away, return_when=FIRST_COMPLETED)
                    yield from (one.result() for one in done)
            yield from (one.result() for one in as_completed(away))

    def _exchanged(self, post: Post) -> tuple[Post, Reply | Silence]:
        try:
            messaging.send(_message(post.body), app=self.app)
        except Exception as error:  # nor of what it makes of an answer that isn't Google's
            return post, self._heard.taken() or _silence(error)
        return post, self._heard.taken() or Silence(reason="it says nothing of an answer", left=True)

    def _session(self) -> requests.Session:
        """Whose every answer is noted, whatever the library makes of it."""
        credential = self.app.credential.get_credential()
        session: requests.Session = AuthorizedSession(  # type: ignore[no-untyped-call]  # google-auth's constructor
            credential, refresh_status_codes=(), auth_request=self.asking
        )
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=self.at_once))
        session.max_redirects = 0
        session.hooks["response"].append(self._note)
        return session

    def _note(self, response: requests.Response, **_: object) -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._heard.reply = Reply(status=response.status_code, headers=headers, body=response.content)


def _message(body: bytes) -> messaging.Message:
    """What ours has written, in the library's own words for it."""
    said = json.loads(body)["message"]
    android = said["android"]
    message = messaging.Message(
        notification=messaging.Notification(body=said["notification"]["body"]),
        android=messaging.AndroidConfig(
            collapse_key=android.get("collapse_key"),
            priority=android["priority"].lower(),
            ttl=timedelta(seconds=int(android["ttl"].removesuffix("s"))),
            notification=messaging.AndroidNotification(tag=android["notification"]["tag"]),
        ),
        fid=said.get("fid"),
    )
    message.token = said.get("token")  # the constructor would warn, at each, that installations are what is to come
    return message


_FIELD = re.compile(r"[A-Za-z]+\.[a-z_]+\b")
"""Of a message, as its words begin: `AndroidConfig.ttl`."""
_UNSENT = (NewConnectionError, ConnectTimeoutError, SSLCertVerificationError, TransportError, TokenRefused)
"""Among the causes of an error: it came before anything of the letter was said."""


def _silence(error: Exception) -> Silence:
    if isinstance(error, ValueError):  # it isn't sent as it is
        named = _FIELD.match(str(error))  # and no more of its words: they may repeat what is wrong
        return Silence(reason=f"firebase-admin refuses {named[0] if named else 'it'}", left=False)
    causes = [*_causes(error)]
    late = any(isinstance(cause, requests.Timeout) for cause in causes)
    if any(isinstance(cause, _UNSENT) for cause in causes):
        return Silence(reason="it can't be reached", left=False)
    return Silence(reason="no answer in time" if late else "the connection broke", left=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(reason := getattr(error, "reason", None), BaseException):  # as urllib3 hides it
            yield reason
        error = error.__context__
