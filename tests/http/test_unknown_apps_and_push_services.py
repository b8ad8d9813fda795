"""Devices of unknown apps or push services are refused when they register."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from litestar.testing import TestClient

from notifier.config.push import ApnsSettings, PushSettings, WebPushSettings
from tests.http.error_response_checks import assert_problem
from tests.http.test_devices import APPLE, BROWSER, KEYS, devices, register, registered
from tests.support.in_memory_http_api import ApiClient, MemoryBackend


@contextmanager
def client_of(push: PushSettings) -> Iterator[ApiClient]:
    backend = MemoryBackend()
    backend.system = replace(backend.system, settings=replace(backend.system.settings, push=push))
    with TestClient(backend.app(), raise_server_exceptions=False) as client:
        yield ApiClient(backend=backend, http=client)


def browser(endpoint: str) -> Mapping[str, object]:
    return {"platform": "web", "subscription": {"endpoint": endpoint, "keys": KEYS}}


def test_browser_of_an_unknown_push_service_is_foreign(api_client: ApiClient) -> None:
    refusal = assert_problem(register(api_client, browser("https://push.example/1")), 400, "foreign_device")
    assert "not a known push service" in refusal["detail"]
    assert devices(api_client) == []


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000/1", "https://127.0.0.1/1", "https://localhost/1"])
def test_loopback_push_service_is_invalid_in_production(api_client: ApiClient, endpoint: str) -> None:
    assert_problem(register(api_client, browser(endpoint)), 400, "bad_device")


def test_configured_hosts_are_the_push_services() -> None:
    with client_of(PushSettings(web=WebPushSettings(hosts="push.example"))) as api_client:
        assert registered(api_client, browser("https://push.example/1"))["app"] == "https://push.example"
        assert_problem(register(api_client, BROWSER), 400, "foreign_device")


def test_device_of_an_unconfigured_app_is_foreign() -> None:
    with client_of(PushSettings(apns=ApnsSettings(topics="com.example.app,com.example.beta"))) as api_client:
        registered(api_client, APPLE)
        assert_problem(register(api_client, APPLE | {"topic": "com.rival"}), 400, "foreign_device")
        assert [device["app"] for device in devices(api_client)] == ["com.example.app"]
