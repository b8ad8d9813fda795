"""Garbage in a real Valkey costs speed: requests are answered rightly, and the pull index becomes complete again."""

import pytest

from notifier.domain.ids import Kind
from notifier.wiring.operations import build_overview
from tests.contracts.garbage import STRINGS, replacements
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.http.garbled_house import Garbler, cached_edge, garbling
from tests.support.http_app import Edge

__all__ = ["valkey", "valkey_server"]

OPENINGS = 150
MENTIONED_EVERY = 30
ROUNDS = 3
"""Of the reconciler, one a second: one finds the garbage in lists, one what is no list at all, and one rebuilds."""
WAYS = [*(f"string: {name}" for name in STRINGS), "list", "set", "zset", "hash", "stream"]


def page(edge: Edge, user: str = "u1") -> tuple[object, object]:
    answer = edge.inbox(user)
    assert answer.status_code == 200, answer.text
    assert answer.json()["partial"] is False
    return answer.json()["items"], answer.json()["badge"]


@pytest.mark.timeout(180)
def test_redis_garbled_is_absent(valkey: Valkey) -> None:
    with cached_edge(valkey.patient) as edge:
        house, right = edge.house, None
        house.report()
        with garbling(valkey.patient):
            for number in range(OPENINGS):
                if number % MENTIONED_EVERY == 0:
                    edge.mention()
                    right = page(edge.store)
                house.reconciler()
                assert page(edge) == right
        for _ in range(ROUNDS):
            house.reconciler()
            assert page(edge) == right
        assert sum(key.subject.kind is Kind.MENTION for key in house.bursts.by_key) == OPENINGS // MENTIONED_EVERY
        assert house.ports.pull.generation() is not None
        assert house.counted("notifier_unreconciled_total", duty="index") == 0
        assert house.counted("notifier_cache_garbage_total", kind="pull") > 0


@pytest.mark.parametrize("way", WAYS)
def test_redis_garbled_in_every_key_is_absent(valkey: Valkey, way: str) -> None:
    with cached_edge(valkey.patient) as edge:
        edge.mention()
        edge.house.reconciler()
        garble_all(valkey, way)
        assert page(edge) == page(edge.store)
        edge.mention()
        assert page(edge) == page(edge.store)
        for _ in range(ROUNDS):
            edge.house.reconciler()
        assert edge.house.ports.pull.generation() is not None
        assert page(edge) == page(edge.store)


@pytest.mark.parametrize("way", WAYS)
def test_system_survives_garbage_in_every_key(valkey: Valkey, way: str) -> None:
    with cached_edge(valkey.patient) as edge:
        edge.mention()
        edge.house.reconciler()
        edge.house.report()
        garble_all(valkey, way)
        answer = edge.client.get("/v1/system", headers=edge.service)
        assert (answer.status_code, answer.json()["redis"]["state"]) == (200, "empty")
        assert edge.client.get("/readyz").json()["cache"] == "ok"
        edge.house.report()
        for _ in range(ROUNDS):
            edge.house.reconciler()
        cache = build_overview(edge.house.system).read().cache
        assert (cache.generation is not None, cache.pressure, list(cache.left_alone)) == (True, 0.5, ["fcm"])


def test_system_survives_garbage_in_every_field(valkey: Valkey) -> None:
    with cached_edge(valkey.patient) as edge:
        house = edge.house
        edge.mention()
        house.reconciler()
        house.report()
        for key in valkey.client.scan_iter():
            if valkey.client.type(key) == b"hash":
                valkey.client.hset(key, mapping=dict.fromkeys(valkey.client.hkeys(key), b"\xff\xfe"))
        answer = edge.client.get("/v1/system", headers=edge.service)
        assert (answer.status_code, answer.json()["redis"]["state"]) == (200, "empty")
        for _ in range(ROUNDS):
            house.reconciler()
        assert house.ports.pull.generation() is not None


def test_system_survives_garbage_again_and_again(valkey: Valkey) -> None:
    with cached_edge(valkey.patient) as edge:
        house = edge.house
        edge.mention()
        garbler, overview = Garbler(valkey.client), build_overview(house.system)
        for _ in range(20):
            house.reconciler()
            house.report()
            garbler.garble_all()
            overview.read()
        assert edge.client.get("/v1/system", headers=edge.service).status_code == 200


def garble_all(valkey: Valkey, way: str) -> None:
    for key in list(valkey.client.scan_iter()):
        dict(replacements(valkey.client, key.decode()))[way]()
