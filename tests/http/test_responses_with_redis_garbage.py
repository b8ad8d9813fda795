"""Garbage in a real Valkey changes no response, and the pull index recovers."""

import pytest

from notifier.domain.ids import Kind
from notifier.wiring.operations import build_overview
from tests.contracts.redis_garbage import STRINGS, replacements
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.http.garbage_in_valkey import Garbler, cached_client, garbage_writer
from tests.support.in_memory_http_api import ApiClient

__all__ = ["valkey", "valkey_server"]

REQUESTS = 150
MENTION_INTERVAL = 30
RECONCILER_ROUNDS = 3
"""One round a second: the first repairs lists, the second replaces keys of the wrong type, the third rebuilds."""
GARBAGE_KINDS = [*(f"string: {name}" for name in STRINGS), "list", "set", "zset", "hash", "stream"]


def page(api_client: ApiClient, user: str = "u1") -> tuple[object, object]:
    response = api_client.inbox(user)
    assert response.status_code == 200, response.text
    assert response.json()["partial"] is False
    return response.json()["items"], response.json()["badge"]


@pytest.mark.timeout(180)
def test_redis_garbled_is_absent_while_pages_are_read(valkey: Valkey) -> None:
    with cached_client(valkey.patient_url) as api_client:
        backend, expected = api_client.backend, None
        backend.report()
        with garbage_writer(valkey.patient_url):
            for number in range(REQUESTS):
                if number % MENTION_INTERVAL == 0:
                    api_client.mention()
                    expected = page(api_client.store)
                backend.reconciler()
                assert page(api_client) == expected
        for _ in range(RECONCILER_ROUNDS):
            backend.reconciler()
            assert page(api_client) == expected
        assert sum(key.subject.kind is Kind.MENTION for key in backend.bursts.by_key) == REQUESTS // MENTION_INTERVAL
        assert backend.ports.pull.generation() is not None
        assert backend.counted("notifier_unreconciled_total", duty="index") == 0
        assert backend.counted("notifier_cache_garbage_total", kind="pull-index") > 0


@pytest.mark.parametrize("kind", GARBAGE_KINDS)
def test_redis_garbled_is_absent_in_every_key(valkey: Valkey, kind: str) -> None:
    with cached_client(valkey.patient_url) as api_client:
        api_client.mention()
        api_client.backend.reconciler()
        garble_all(valkey, kind)
        assert page(api_client) == page(api_client.store)
        api_client.mention()
        assert page(api_client) == page(api_client.store)
        for _ in range(RECONCILER_ROUNDS):
            api_client.backend.reconciler()
        assert api_client.backend.ports.pull.generation() is not None
        assert page(api_client) == page(api_client.store)


@pytest.mark.parametrize("kind", GARBAGE_KINDS)
def test_system_survives_garbage_in_every_key(valkey: Valkey, kind: str) -> None:
    with cached_client(valkey.patient_url) as api_client:
        api_client.mention()
        api_client.backend.reconciler()
        api_client.backend.report()
        garble_all(valkey, kind)
        response = api_client.http.get("/v1/system", headers=api_client.service)
        assert (response.status_code, response.json()["redis"]["state"]) == (200, "rebuilding")
        assert api_client.http.get("/readyz").json()["cache"] == "ok"
        api_client.backend.report()
        for _ in range(RECONCILER_ROUNDS):
            api_client.backend.reconciler()
        cache = build_overview(api_client.backend.system).read().cache
        assert (cache.generation is not None, cache.backpressure, list(cache.open_circuits)) == (True, 0.5, ["fcm"])


def test_system_survives_garbage_in_every_hash_field(valkey: Valkey) -> None:
    with cached_client(valkey.patient_url) as api_client:
        backend = api_client.backend
        api_client.mention()
        backend.reconciler()
        backend.report()
        for key in valkey.client.scan_iter():
            if valkey.client.type(key) == b"hash":
                valkey.client.hset(key, mapping=dict.fromkeys(valkey.client.hkeys(key), b"\xff\xfe"))
        response = api_client.http.get("/v1/system", headers=api_client.service)
        assert (response.status_code, response.json()["redis"]["state"]) == (200, "rebuilding")
        for _ in range(RECONCILER_ROUNDS):
            backend.reconciler()
        assert backend.ports.pull.generation() is not None


def test_system_survives_garbage_again_and_again(valkey: Valkey) -> None:
    with cached_client(valkey.patient_url) as api_client:
        backend = api_client.backend
        api_client.mention()
        garbler, overview = Garbler(valkey.client), build_overview(backend.system)
        for _ in range(20):
            backend.reconciler()
            backend.report()
            garbler.garble_all()
            overview.read()
        assert api_client.http.get("/v1/system", headers=api_client.service).status_code == 200


def garble_all(valkey: Valkey, kind: str) -> None:
    for key in list(valkey.client.scan_iter()):
        dict(replacements(valkey.client, key.decode()))[kind]()
