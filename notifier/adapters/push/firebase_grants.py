"""Google's token endpoint as google-auth asks it, but once: by itself it asks three times, and sleeps between."""

from dataclasses import dataclass, field
from typing import Any

from google.auth.transport import Response
from google.auth.transport.requests import Request

from notifier.ports.http2 import Reply


class Refused(Exception):
    """No token; and what was answered."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"status {reply.status}")
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Asking:
    """In the place of google-auth's Request. Raises Refused where that would look whether to try again."""

    within: float
    """Seconds."""
    request: Request = field(default_factory=Request)

    def __call__(self, *args: Any, **kwargs: Any) -> Response:
        answer: Response = self.request(*args, **{"timeout": self.within, **kwargs})
        if answer.status != 200:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            raise Refused(Reply(status=answer.status, headers=headers, body=answer.data))
        return answer
