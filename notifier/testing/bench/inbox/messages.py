"""Requests as bytes and answers as values: what the load generator sends, and what it brought back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE, UNREAD = "/v1/inbox", "/v1/inbox/unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    number: int
    """Number of its request in the file."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def get(path: str, token: str, headers: Mapping[str, str] | None = None) -> bytes:
    return _request("GET", path, token, headers or {}, b"")


def post(path: str, token: str, body: bytes, content_type: str) -> bytes:
    return _request("POST", path, token, {"Content-Type": content_type, "Content-Length": str(len(body))}, body)


def _request(method: str, path: str, token: str, headers: Mapping[str, str], body: bytes) -> bytes:
    named = {"Host": "127.0.0.1", "Authorization": f"Bearer {token}", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answers(path: Path) -> Sequence[Answered]:
    """Return what the client wrote, by number of the request."""
    found = [_answered(*json.loads(line)) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda answer: answer.number)


def _answered(number: int, status: int, head: str, body: str) -> Answered:
    pairs = [line.partition(": ") for line in head.split("\r\n")[1:]]
    headers = {name.lower(): value for name, _, value in pairs}
    return Answered(number=number, status=status, headers=headers, body=body)
