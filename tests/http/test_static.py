"""The files of the pages: whole, typed, kept while they are the same, and nothing but them."""

from pathlib import Path

import pytest

from notifier.api.routes.static import TYPES, known
from tests.http.problems import assert_problem
from tests.repo.sources import ROOT
from tests.support.http_app import Edge


def served(path: Path) -> list[str]:
    """A script has no comments behind its first line, and no indentation; every other file is whole."""
    first, *lines = path.read_text().split("\n")
    return [first, *(map(without_comment, lines) if path.suffix == ".js" else lines)]


def without_comment(line: str) -> str:
    code, _, _ = f" {line}".partition(" // ")
    return code.strip() if not line.strip().startswith("//") else ""


def test_every_file_of_the_pages_is_served_as_what_it_is(edge: Edge) -> None:
    folder = ROOT / "notifier" / "api" / "static"
    wanted = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*") if path.is_file()}
    assert wanted.keys() == known().keys()
    for name, path in wanted.items():
        answer = edge.client.get(f"/static/{name}")
        assert (answer.status_code, answer.text.split("\n")) == (200, served(path))
        assert answer.headers["content-type"] == f"{TYPES[path.suffix]}; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_browser_that_has_the_file_is_told_so_in_a_line(edge: Edge) -> None:
    first = edge.client.get("/static/demo.css")
    assert first.headers["cache-control"] == "no-cache"
    again = edge.client.get("/static/demo.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert edge.client.get("/static/demo.css", headers={"If-None-Match": '"other"'}).status_code == 200


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
def test_nothing_else_is_a_file(edge: Edge, name: str) -> None:
    assert_problem(edge.client.get(f"/static/{name}"), 404, "not_found")
