"""Routes, error codes, metrics and alarms match the code, and links reach headings."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from litestar.testing import TestClient

from notifier.api.problems import NoSuchMethod, status_of
from notifier.config import Settings
from notifier.domain import errors
from notifier.domain.errors import NotifierError
from notifier.metrics import Metrics
from tests.docs.document_pages import PAGES, Page
from tests.repo.repository_files import ROOT
from tests.support.in_memory_http_api import MemoryBackend

HTTP = Page("docs/http.md")
OPERATIONS = Page("docs/operations.md")
METHODS = {"get", "put", "post", "delete", "patch"}
NOT_OVER_HTTP = {
    "bad_import": "reported by the import command; no route returns it",
    "bad_reach": "reported by the command line; no route returns it",
    "no_answer": "reported by the command line when a service doesn't answer",
    "queue_unavailable": "the API queues nothing; the dispatcher waits",
    "number_taken": "reported when accounts are enrolled; no route returns it",
    "lane_stopped": "the pump waits and operators see it; no route returns it",
    "poison": "goes to the dead letters",
}
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")


def kinds(base: type[NotifierError] = NotifierError) -> Iterator[type[NotifierError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def documented_codes() -> set[tuple[int, str]]:
    return {(int(status), code) for status, codes in HTTP.table("status") for code in re.findall(r"`([a-z_]+)`", codes)}


def test_every_error_code_of_the_api_is_documented_with_its_status() -> None:
    known: set[type[NotifierError]] = {
        *(kind for kind in kinds() if kind.__module__.startswith("notifier.")),
        NoSuchMethod,
    }
    over_http = {
        kind for kind in known if not issubclass(kind, errors.UnusableEnvironment) and kind.code not in NOT_OVER_HTTP
    }
    assert {code for _, code in documented_codes()} == {kind.code for kind in over_http}
    assert documented_codes() == {(status_of(kind()), kind.code) for kind in over_http}


def test_documented_routes_equal_the_served_ones() -> None:
    with TestClient(MemoryBackend().app()) as client:
        paths = client.get("/openapi.json").json()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods if method in METHODS}
    listed = {tuple(route.strip("`").partition("?")[0].split()) for route, *_ in HTTP.table("route")}
    assert listed == served


def test_documented_demo_routes_equal_the_served_ones() -> None:
    backend = MemoryBackend()
    routes_outside_a_demo = routes(backend)
    backend.system = replace(backend.system, settings=Settings(demo="u1,u2,u3,bob"))
    listed = {tuple(route.strip("`").split()) for route, *_ in HTTP.table("the demo's route")}
    assert listed == routes(backend) - routes_outside_a_demo


def routes(backend: MemoryBackend) -> set[tuple[str, str]]:
    return {(method, route.path) for route in backend.app().routes for method in route.methods if method != "OPTIONS"}


def test_every_metric_is_documented_with_its_kind_labels_and_meaning() -> None:
    listed = [(name.strip("`"), kind, labels, meaning) for name, kind, labels, meaning in OPERATIONS.table("metric")]
    metrics = [metric for name, metric in vars(Metrics()).items() if name != "registry"]
    assert listed == [
        (
            metric._name + ("_total" if metric._type == "counter" else ""),
            metric._type,
            ", ".join(f"`{label}`" for label in metric._labelnames) or "-",
            metric._documentation,
        )
        for metric in metrics
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_metrics_named_in_documents_exist(page: Page) -> None:
    known = {name.strip("`") for name, *_ in OPERATIONS.table("metric")}
    named = set(re.findall(r"(?<![\w/])(notifier_[a-z_]+)", page.text.replace("notifier_deliveries_total ", "")))
    assert {name.removesuffix("_bucket") for name in named} - known == set()


def test_every_alarm_has_an_action() -> None:
    alarms = OPERATIONS.table("alarm")
    assert len(alarms) > 5
    assert all(all(cells) for cells in alarms)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_to_headings(page: Page) -> None:
    broken = []
    for file, anchor in LINK.findall(page.text):
        folder = page.name.rpartition("/")[0]
        target = page if not file else Page(f"{folder}/{file}" if folder else file)
        if anchor not in target.anchors:
            broken.append(f"{file}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(("name", "least"), [("docs/audiences.md", 12), ("docs/devices.md", 5)])
def test_every_check_of_a_page_is_the_name_of_a_test(name: str, least: int) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [check.strip("`") for check, _ in Page(name).table("check")]
    assert len(named) >= least
    assert [check for check in named if not re.search(rf"def test_{check}\b", tests)] == []
