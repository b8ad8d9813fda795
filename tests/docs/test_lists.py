"""What the documents list is what the code has, and the other way round: routes, codes, metrics; and anchors."""

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
from tests.docs.pages import PAGES, Page
from tests.repo.sources import ROOT
from tests.support.http_app import House

HTTP = Page("docs/http.md")
OPERATIONS = Page("docs/operations.md")
METHODS = {"get", "put", "post", "delete", "patch"}
NOT_OVER_HTTP = {
    "bad_import": "who imports a file is told; no route does",
    "bad_reach": "operators say it on the command line",
    "no_answer": "what the command line says of a service that doesn't answer",
    "queue_unavailable": "the API queues nothing; the dispatcher waits",
    "number_taken": "whoever enrols accounts is told; no route does",
    "lane_stopped": "the pump waits, and operators see it; no route raises it",
    "poison": "goes to the dead letters",
}
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")


def kinds(above: type[NotifierError] = NotifierError) -> Iterator[type[NotifierError]]:
    yield above
    for kind in above.__subclasses__():
        yield from kinds(kind)


def documented_codes() -> set[tuple[int, str]]:
    return {(int(status), code) for status, codes in HTTP.table("status") for code in re.findall(r"`([a-z_]+)`", codes)}


def test_every_error_code_of_the_api_is_documented_with_its_status() -> None:
    ours: set[type[NotifierError]] = {
        *(kind for kind in kinds() if kind.__module__.startswith("notifier.")),
        NoSuchMethod,
    }
    over_http = {kind for kind in ours if not issubclass(kind, errors.Environment) and kind.code not in NOT_OVER_HTTP}
    assert {code for _, code in documented_codes()} == {kind.code for kind in over_http}
    assert documented_codes() == {(status_of(kind()), kind.code) for kind in over_http}


def test_every_route_is_documented_and_every_documented_route_is_there() -> None:
    with TestClient(House().app()) as client:
        paths = client.get("/openapi.json").json()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods if method in METHODS}
    listed = {tuple(route.strip("`").partition("?")[0].split()) for route, *_ in HTTP.table("route")}
    assert listed == served


def test_every_route_of_the_demo_is_documented_and_every_documented_one_is_there() -> None:
    house = House()
    everywhere = routes(house)
    house.system = replace(house.system, settings=Settings(demo="u1,u2,u3,bob"))
    listed = {tuple(route.strip("`").split()) for route, *_ in HTTP.table("the demo's route")}
    assert listed == routes(house) - everywhere


def routes(house: House) -> set[tuple[str, str]]:
    return {(method, route.path) for route in house.app().routes for method in route.methods if method != "OPTIONS"}


def test_every_metric_is_documented_with_its_kind_labels_and_meaning() -> None:
    listed = [(name.strip("`"), kind, labels, meaning) for name, kind, labels, meaning in OPERATIONS.table("metric")]
    made = [metric for name, metric in vars(Metrics()).items() if name != "registry"]
    assert listed == [
        (
            metric._name + ("_total" if metric._type == "counter" else ""),
            metric._type,
            ", ".join(f"`{label}`" for label in metric._labelnames) or "-",
            metric._documentation,
        )
        for metric in made
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_metrics_named_anywhere_exist(page: Page) -> None:
    known = {name.strip("`") for name, *_ in OPERATIONS.table("metric")}
    named = set(re.findall(r"\b(notifier_[a-z_]+)", page.text.replace("notifier_deliveries_total ", "")))
    assert {name.removesuffix("_bucket") for name in named} - known == set()


def test_every_alarm_says_what_to_do() -> None:
    alarms = OPERATIONS.table("alarm")
    assert len(alarms) > 5
    assert all(all(cells) for cells in alarms)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_to_headings(page: Page) -> None:
    lost = []
    for file, anchor in LINK.findall(page.text):
        folder = page.name.rpartition("/")[0]
        target = page if not file else Page(f"{folder}/{file}" if folder else file)
        if anchor not in target.anchors:
            lost.append(f"{file}#{anchor}")
    assert lost == []


@pytest.mark.parametrize(("name", "least"), [("docs/audiences.md", 12), ("docs/devices.md", 5)])
def test_every_check_of_a_page_is_the_name_of_a_test(name: str, least: int) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [check.strip("`") for check, _ in Page(name).table("check")]
    assert len(named) >= least
    assert [check for check in named if not re.search(rf"def test_{check}\b", tests)] == []
