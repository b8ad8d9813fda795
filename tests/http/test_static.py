"""Static files: complete, typed, revalidated, and nothing outside the folder."""

from pathlib import Path

import pytest

from notifier.api.routes.static import MEDIA_TYPES, static_files
from tests.http.error_response_checks import assert_problem
from tests.repo.repository_files import ROOT
from tests.support.in_memory_http_api import ApiClient


def expected_lines(path: Path) -> list[str]:
    """Return the lines as served: without indentation and empty lines, and scripts without comments."""
    lines = path.read_text().split("\n")
    stripped = [without_comment(line) if path.suffix == ".js" else line.lstrip() for line in lines]
    return [*filter(None, stripped), ""]


def without_comment(line: str) -> str:
    code, _, _ = f" {line}".partition(" // ")
    return code.strip() if not line.strip().startswith("//") else ""


def test_every_static_file_is_served_with_its_type(api_client: ApiClient) -> None:
    folder = ROOT / "notifier" / "api" / "static"
    expected = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*") if path.is_file()}
    assert expected.keys() == static_files().keys()
    for name, path in expected.items():
        response = api_client.http.get(f"/static/{name}")
        assert (response.status_code, response.text.split("\n")) == (200, expected_lines(path))
        assert response.headers["content-type"] == f"{MEDIA_TYPES[path.suffix]}; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_unchanged_static_file_is_304(api_client: ApiClient) -> None:
    first = api_client.http.get("/static/demo.css")
    assert first.headers["cache-control"] == "no-cache"
    second = api_client.http.get("/static/demo.css", headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.content, second.headers["etag"]) == (304, b"", first.headers["etag"])
    assert api_client.http.get("/static/demo.css", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x.js",
        "../app.py",
        "%2e%2e/app.py",
        "..%2fapp.py",
        "demo",
        "demo/",
        "demo.css/x",
        "/etc/passwd",
        "demo.css%00",
    ],
)
def test_unknown_static_path_is_not_found(api_client: ApiClient, name: str) -> None:
    assert_problem(api_client.http.get(f"/static/{name}"), 404, "not_found")
