"""Fetching an issuer's keys is limited in size, in time, and to the configured address."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from time import monotonic

import pytest

from notifier.api.auth.issuer_keys import FETCH_TIMEOUT, MAX_KEY_SET_BYTES, fetch, fetcher
from notifier.domain.errors import IssuerUnavailable


@contextmanager
def server() -> Iterator[tuple[str, Event]]:
    """Yield the address, and an event that ends the slow answer."""
    done = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/keys":
                    self.respond(200, b"k" * MAX_KEY_SET_BYTES)
                case "/large":
                    self.respond(200, b"k" * (MAX_KEY_SET_BYTES + 1))
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
                    self.respond(500, b"")

        def respond(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http_server:
        thread = Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http_server.server_port}", done
        finally:
            done.set()
            http_server.shutdown()
            thread.join()


def test_keys_up_to_the_size_limit_are_fetched() -> None:
    with server() as (url, _):
        assert fetch(f"{url}/keys") == b"k" * MAX_KEY_SET_BYTES


@pytest.mark.parametrize(
    ("path", "message"),
    [("/large", "more than 65536 bytes"), ("/elsewhere", "answered 302"), ("/broken", "answered 500")],
)
def test_oversized_redirected_or_failed_answer_is_refused(path: str, message: str) -> None:
    with server() as (url, _), pytest.raises(IssuerUnavailable, match=message):
        fetch(f"{url}{path}")


def test_refused_connection_is_reported() -> None:
    with pytest.raises(IssuerUnavailable, match="refused"):
        fetch("http://127.0.0.1:1/keys")


def test_slow_answer_ends_at_the_time_limit() -> None:
    with server() as (url, done):
        start = monotonic()
        with pytest.raises(IssuerUnavailable, match="did not answer within 5 s"):
            asyncio.run(fetch_and_release(f"{url}/drips", done))
        assert monotonic() - start < FETCH_TIMEOUT.total_seconds() + 10


async def fetch_and_release(url: str, done: Event) -> bytes:
    try:
        return await fetcher(url)()
    finally:
        done.set()
