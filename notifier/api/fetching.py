"""Fetching the issuer's keys: one GET, bounded in time and size, in a thread of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from notifier.domain.errors import IssuerUnavailable

LARGEST = 64 * 1024
"""Bytes: some thirty RSA keys with their certificates."""
SILENT_FOR = timedelta(seconds=3)
"""Of the other side, at a stretch."""
WITHIN = timedelta(seconds=5)
"""In all: so long a request waits that nobody can answer without the keys."""


def fetching(url: str) -> Callable[[], Awaitable[bytes]]:
    """Starts no thread before it is called. A server that drips holds that one thread, and nobody."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="issuer")

    async def ask() -> bytes:
        try:
            async with asyncio.timeout(WITHIN.total_seconds()):
                return await asyncio.get_running_loop().run_in_executor(thread, partial(fetch, url))
        except TimeoutError:
            raise IssuerUnavailable(f"{url} didn't answer within {WITHIN.total_seconds():g} s.") from None

    return ask


def fetch(url: str) -> bytes:
    """Raises IssuerUnavailable."""
    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener(_Stays()).open(request, timeout=SILENT_FOR.total_seconds()) as answer:
            found = bytes(answer.read(LARGEST + 1))
    except HTTPError as error:
        with error:
            raise IssuerUnavailable(f"{url} answered {error.code}.") from error
    except (OSError, HTTPException, ValueError) as error:
        raise IssuerUnavailable(f"{url}: {error}.") from error
    if len(found) > LARGEST:
        raise IssuerUnavailable(f"{url} answered with more than {LARGEST} bytes.")
    return found


class _Stays(HTTPRedirectHandler):
    """The address in the settings was looked at; where it sends us to was not, and may be plain HTTP."""

    def redirect_request(self, *_: Any) -> None:
        return None
