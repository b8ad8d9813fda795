"""The running service, as the verbs that speak HTTP ask it; its refusals become ours."""

import json
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from notifier.domain.errors import NoAnswer, Refused, Unavailable

ANSWERS_WITHIN = 10.0
"""Seconds."""


def ask(url: str, key: str, body: bytes | None = None, kind: str = "application/json") -> dict[str, object]:
    """A GET, or a POST when there is a body. Raises Refused with the service's own words, Unavailable or NoAnswer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": kind}
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=ANSWERS_WITHIN) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        with error:
            words = _words(error)
        raise (Refused(words) if error.code < 500 else Unavailable(words)) from error
    except (OSError, HTTPException) as error:
        raise NoAnswer(f"It is {url}.") from error
    except ValueError as error:
        raise Refused(f"{url}: {error}.") from error


def _words(error: HTTPError) -> str:
    """From problem+json, when that is what came."""
    try:
        problem = json.load(error)
        return f"{error.code}: {problem.get('detail') or problem.get('title')}"
    except (ValueError, AttributeError):
        return f"{error.code}: {error.reason}."
