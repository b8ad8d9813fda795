"""Devices that nothing is sent to from here are refused when they register, and not dropped by the first alert."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from litestar.testing import TestClient

from notifier.config.push import ApnsSettings, PushSettings, WebPushSettings
from tests.http.problems import assert_problem
from tests.http.test_devices import APPLE, BROWSER, KEYS, devices, register, registered
from tests.support.http_app import Edge, House


@contextmanager
def edge_of(push: PushSettings) -> Iterator[Edge]:
    house = House()
    house.system = replace(house.system, settings=replace(house.system.settings, push=push))
    with TestClient(house.app(), raise_server_exceptions=False) as client:
        yield Edge(house=house, client=client)


def browser(endpoint: str) -> Mapping[str, object]:
    return {"platform": "web", "subscription": {"endpoint": endpoint, "keys": KEYS}}


def test_a_browser_at_a_host_that_is_no_push_service_is_foreign(edge: Edge) -> None:
    refusal = assert_problem(register(edge, browser("https://push.example/1")), 400, "foreign_device")
    assert "no push service" in refusal["detail"]
    assert devices(edge) == []


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000/1", "https://127.0.0.1/1", "https://localhost/1"])
def test_this_machine_is_no_push_service_in_production(edge: Edge, endpoint: str) -> None:
    assert_problem(register(edge, browser(endpoint)), 400, "bad_device")


def test_push_services_are_those_that_are_named() -> None:
    with edge_of(PushSettings(web=WebPushSettings(hosts="push.example"))) as edge:
        assert registered(edge, browser("https://push.example/1"))["app"] == "https://push.example"
        assert_problem(register(edge, BROWSER), 400, "foreign_device")


def test_a_device_of_an_app_that_no_alert_is_sent_to_is_foreign() -> None:
    with edge_of(PushSettings(apns=ApnsSettings(topics="com.example.app,com.example.beta"))) as edge:
        registered(edge, APPLE)
        assert_problem(register(edge, APPLE | {"topic": "com.rival"}), 400, "foreign_device")
        assert [one["app"] for one in devices(edge)] == ["com.example.app"]
