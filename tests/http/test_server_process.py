"""The real server in its own process: ports, requests and a clean shutdown."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.cli.running_service import until
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import SERVICE_KEY, MemoryBackend

ROOT = Path(__file__).resolve().parents[2]
ENDS_WITHIN = 30.0
"""Seconds, on a machine that is busy with other tests; an idle one needs less than two."""
SERVICE = {"Authorization": f"Bearer {SERVICE_KEY}"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server("127.0.0.1", 0) as (_, url_):
        yield url_


def test_server_accepts_events_and_serves_inboxes(url: str) -> None:
    accepted = httpx.post(f"{url}/v1/events", json=event(), headers=SERVICE)
    assert (accepted.status_code, accepted.json()["status"]) == (202, "accepted")
    user_headers = {"Authorization": f"Bearer {MemoryBackend().token('u1')}"}
    inbox = httpx.get(f"{url}/v1/inbox", headers=user_headers)
    assert (inbox.status_code, inbox.json()["items"]) == (200, [])
    assert (
        httpx.get(f"{url}/v1/inbox", headers={**user_headers, "If-None-Match": inbox.headers["etag"]}).status_code
        == 304
    )


@pytest.mark.parametrize("id", ["a/b", "a//b", "/a/", "a%2Fb", "ü ?#&", "a/../b"])
def test_event_is_found_by_any_encoded_id(url: str, id: str) -> None:
    httpx.post(f"{url}/v1/events", json=event(id), headers=SERVICE)
    assert httpx.get(f"{url}/v1/events/{quote(id, safe='')}", headers=SERVICE).json()["id"] == id


def test_oversized_body_is_refused_while_it_is_still_sent(url: str) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as connection:
        head = "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(f"{head}Authorization: Bearer {SERVICE_KEY}\r\n\r\n".encode())
        connection.sendall(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")  # the end of the body is never sent
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_refusals_are_problem_responses(url: str) -> None:
    assert_problem(httpx.get(f"{url}/nothing"), 404, "not_found")
    assert_problem(httpx.get(f"{url}/%ff%00"), 404, "not_found")
    assert_problem(httpx.get(f"{url}/v1/inbox"), 401, "bad_token")


def test_taken_port_is_reported_in_a_sentence(url: str) -> None:
    port = httpx.URL(url).port
    command = [sys.executable, "-m", "tests.support.serve_in_memory_api", "127.0.0.1", str(port)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=ENDS_WITHIN)
    assert result.returncode == 1
    assert result.stderr.startswith("port_taken: The port is taken by another program; choose another")
    assert str(port) in result.stderr


def test_sigterm_closes_connections_and_frees_the_port() -> None:
    with running_server("127.0.0.1", 0) as (process, url), httpx.Client() as idle:
        idle.get(f"{url}/healthz")
        user_headers = {"Authorization": f"Bearer {MemoryBackend().token('u1')}"}
        with httpx.stream("GET", f"{url}/v1/inbox/stream", headers=user_headers) as stream:
            chunks = stream.iter_bytes()
            assert next(chunks).startswith(b"retry: 2000\n\nid: ")
            process.send_signal(signal.SIGTERM)
            assert b"".join(chunks) == b""  # no error: the response is complete
        assert process.wait(ENDS_WITHIN) == 0
    with running_server("127.0.0.1", httpx.URL(url).port or 0) as (_, second_url):
        assert second_url == url
        assert httpx.get(f"{second_url}/healthz").status_code == 200


@contextmanager
def running_server(host: str, port: int) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "tests.support.serve_in_memory_api", host, str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, f"http://{host}:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def test_disconnected_stream_client_is_noticed(url: str) -> None:
    user_headers = {"Authorization": f"Bearer {MemoryBackend().token('u1')}"}
    with httpx.stream("GET", f"{url}/v1/inbox/stream", headers=user_headers) as stream:
        chunks = stream.iter_bytes()
        next(chunks)
        assert "notifier_streams 1.0" in httpx.get(f"{url}/metrics").text
    until(lambda: "notifier_streams 0.0" in httpx.get(f"{url}/metrics").text, ENDS_WITHIN)
