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


def comparable(text: str, path: Path) -> list[str]:
    """Return the lines of a served file. Style sheets lose spaces, so they are compared without any."""
    has_style_sheet = path.suffix == ".css" or "replaceSync" in text
    return [line.replace(" ", "") if has_style_sheet else line for line in text.split("\n")]


def without_comment(line: str) -> str:
    code, _, _ = f" {line}".partition(" // ")
    return code.strip() if not line.strip().startswith("//") else ""


def test_every_static_file_is_served_with_its_type(api_client: ApiClient) -> None:
    folder = ROOT / "notifier" / "api" / "static"
    expected = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*") if path.is_file()}
    assert expected.keys() == static_files().keys()
    for name, path in expected.items():
        response = api_client.http.get(f"/static/{name}")
        expected_text = "\n".join(expected_lines(path))
        assert response.status_code == 200
        assert comparable(response.text, path) == comparable(expected_text, path)
        assert response.headers["content-type"] == f"{MEDIA_TYPES[path.suffix]}; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["demo.css", "notifier-inbox/styles.js"])
def test_style_sheet_keeps_only_spaces_that_separate(api_client: ApiClient, name: str) -> None:
    sheet = api_client.http.get(f"/static/{name}").text
    assert ":focus-visible{outline:2px solid var(--accent);outline-offset:2px;}" in sheet
    assert "@media (prefers-reduced-motion:reduce){" in sheet


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
