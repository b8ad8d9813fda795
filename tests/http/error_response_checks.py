"""Checks the shape of error responses."""

from typing import Any

import httpx


def assert_problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that the response is this problem, and return its body."""
    assert (response.status_code, response.json().get("code")) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert {"type", "title", "status", "code"} <= body.keys() <= {"type", "title", "status", "code", "detail"}
    assert (body["status"], body["type"]) == (status, f"/problems/{code}")
    assert "Traceback" not in response.text
    return body
