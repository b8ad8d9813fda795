"""Independent HTTP/1.1 client for checks; shares no code with the service."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlsplit

REQUEST_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    status: int
    """HTTP status; 0 if there was no response."""
    body: Any = None
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class HttpClient:
    """One persistent connection for one thread. A broken connection is reopened by the next request."""

    url: str
    bearer: str
    _connection: HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str) -> HttpResponse:
        return self.send("GET", path)

    def post(self, path: str, body: bytes, content_type: str) -> HttpResponse:
        return self.send("POST", path, body, {"Content-Type": content_type})

    def put(self, path: str, value: object) -> HttpResponse:
        return self.send("PUT", path, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        started = time.perf_counter()
        try:
            connection = self._open_connection()
            connection.request(method, path, body, {"Authorization": f"Bearer {self.bearer}", **(headers or {})})
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            self.close()
            return HttpResponse(status=0, seconds=time.perf_counter() - started)
        return HttpResponse(status=response.status, body=_parse_json(content), seconds=time.perf_counter() - started)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open_connection(self) -> HTTPConnection:
        if self._connection is None:
            address = urlsplit(self.url)
            self._connection = HTTPConnection(address.hostname or "", address.port, timeout=REQUEST_TIMEOUT_SECONDS)
        return self._connection


def get_patiently(client: HttpClient, path: str, *, timeout: float = 30.0) -> HttpResponse:
    """GET a path. Retry for up to `timeout` seconds if the response is missing, a 503 or partial."""
    deadline = time.monotonic() + timeout
    while True:
        response = client.get(path)
        if not _is_incomplete(response) or time.monotonic() > deadline:
            return response
        time.sleep(0.1)


def _is_incomplete(response: HttpResponse) -> bool:
    partial = isinstance(response.body, dict) and response.body.get("partial")
    return response.status in (0, 503) or bool(partial)


def url_quote(text: str) -> str:
    return quote(text, safe="")


def _parse_json(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None
