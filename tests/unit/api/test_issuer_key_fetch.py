"""Fetching the issuer's keys is bounded: in size, in time, and to the address that was named."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from time import monotonic

import pytest

from notifier.api.auth.issuer_keys import FETCH_TIMEOUT, MAX_KEY_SET, fetch, fetching
from notifier.domain.errors import IssuerUnavailable


@contextmanager
def server() -> Iterator[tuple[str, Event]]:
    """Its address, and what lets its slow answer end."""
    done = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/keys":
                    self.say(200, b"k" * MAX_KEY_SET)
                case "/large":
                    self.say(200, b"k" * (MAX_KEY_SET + 1))
                case "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", "/keys")
                    self.end_headers()
                case "/drips":
                    self.send_response(200)
                    self.end_headers()
                    while not done.wait(0.2):
                        self.wfile.write(b"k")
                case _:
                    self.say(500, b"")

        def say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as found:
        thread = Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}", done
        finally:
            done.set()
            found.shutdown()
            thread.join()


def test_what_is_there_is_brought() -> None:
    with server() as (url, _):
        assert fetch(f"{url}/keys") == b"k" * MAX_KEY_SET


@pytest.mark.parametrize(
    ("path", "says"),
    [("/large", "more than 65536 bytes"), ("/elsewhere", "answered 302"), ("/broken", "answered 500")],
)
def test_what_is_too_large_elsewhere_or_broken_is_not(path: str, says: str) -> None:
    with server() as (url, _), pytest.raises(IssuerUnavailable, match=says):
        fetch(f"{url}{path}")


def test_where_nobody_answers_is_said() -> None:
    with pytest.raises(IssuerUnavailable, match="refused"):
        fetch("http://127.0.0.1:1/keys")


def test_an_answer_that_drips_holds_nobody_for_longer_than_it_may() -> None:
    with server() as (url, done):
        before = monotonic()
        with pytest.raises(IssuerUnavailable, match="didn't answer within 5 s"):
            asyncio.run(asked(f"{url}/drips", done))
        assert monotonic() - before < FETCH_TIMEOUT.total_seconds() + 2


async def asked(url: str, done: Event) -> bytes:
    try:
        return await fetching(url)()
    finally:
        done.set()
