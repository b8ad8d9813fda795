"""Garbage in Redis is absence: every adapter meets every kind of garbage in every key that it writes."""

import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest

from notifier.adapters import redis
from notifier.adapters.redis.keys import TYPES, KeyKind, kind_of
from tests.contracts.cache_use import Use
from tests.contracts.cache_uses import Caches, caches_on
from tests.contracts.garbage import Garble, whole, within
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

USES = (
    "activity",
    "backlog",
    "buckets",
    "bus",
    "caps",
    "lines",
    "paces",
    "pressure",
    "pull",
    "recent",
    "tabs",
    "versions",
)


@pytest.fixture
def caches(valkey: Valkey) -> Iterator[Caches]:
    with caches_on(valkey) as found:
        yield found


@pytest.fixture
def clustered(valkeys: Valkey) -> Iterator[Caches]:
    with caches_on(valkeys) as found:
        yield found


def keys(server: Valkey) -> list[str]:
    clients = getattr(server, "clients", [server.client])
    return sorted(key.decode() for client in clients for key in client.scan_iter())


def unlike(server: Valkey) -> list[str]:
    """The keys, but of the pull index's parts one with a list and one without: all others are like these."""
    found: dict[object, str] = {}
    for key in keys(server):
        found.setdefault(server.client.hlen(key) if kind_of(key) is KeyKind.PULL else key, key)
    return list(found.values())


def adapters() -> Iterator[type]:
    """Yield the adapters' classes: all that are named Redis…, except the clients and pools of the module `node`."""
    for module in pkgutil.iter_modules(redis.__path__):
        if module.name == "node":
            continue
        found = import_module(f"{redis.__name__}.{module.name}")
        yield from (
            each for name, each in vars(found).items() if name.startswith("Redis") and each.__module__ == found.__name__
        )


def test_every_adapter_and_method_meets_garbage(caches: Caches) -> None:
    uses = caches.uses()
    assert sorted(uses) == sorted(USES)
    for use in uses.values():
        use.mend()
        for call in [*use.writes.values(), *use.asks.values()]:
            call()
    methods = {
        (each, name)
        for each in adapters()
        for name, _ in inspect.getmembers(each, inspect.isfunction)
        if not name.startswith("_")
    }
    assert caches.used == methods


def test_every_key_has_a_kind_and_every_kind_is_written(caches: Caches) -> None:
    for use in caches.uses().values():
        use.mend()
    client: Any = caches.client
    found = {key: client.type(key).decode() for key in keys(caches.server)}
    assert found == {key: TYPES[kind_of(key)] for key in found}
    assert {kind_of(key) for key in found} == TYPES.keys() == set(KeyKind) - {KeyKind.LIVE}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", USES)
def test_garbage_is_absent_until_it_is_mended(caches: Caches, name: str) -> None:
    server, use = caches.server, caches.uses()[name]
    empty, right = answers_before_and_after(use)
    for key in unlike(server):
        ways = [*whole(server.client, key), *within(server.client, key)]
        holds(use, key, ways, empty, right)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", USES)
def test_garbage_is_absent_on_every_node_of_a_cluster(clustered: Caches, name: str) -> None:
    server, use = clustered.server, clustered.uses()[name]
    empty, right = answers_before_and_after(use)
    for key in unlike(server):
        ways = [way for way in whole(server.client, key) if way[0] in ("string: random bytes", "list", "hash")]
        holds(use, key, ways, empty, right)


def answers_before_and_after(use: Use) -> tuple[dict[str, object], dict[str, object]]:
    empty = use.answers()
    use.mend()
    return empty, use.answers()


def holds(
    use: Use, key: str, ways: Iterable[tuple[str, Garble]], empty: dict[str, object], right: dict[str, object]
) -> None:
    """Whichever call meets the garbage first: answers are right, or those of an empty cache, and right once mended."""
    calls = [*use.asks.items(), *use.writes.items()]
    for number, (way, garble) in enumerate(ways):
        first, call = calls[number % len(calls)]
        where = f"{key}, {way}, met by {first}"
        garble()
        call()
        found = use.answers()
        assert not [name for name, answer in found.items() if answer not in (right[name], empty[name])], where
        use.mend()
        assert use.answers() == right, where


@pytest.mark.parametrize("name", USES)
def test_garbage_is_counted_by_kind_of_key(caches: Caches, name: str) -> None:
    server, use = caches.server, caches.uses()[name]
    use.mend()
    for key in unlike(server):
        for way, garble in whole(server.client, key):
            if way == TYPES[kind_of(key)]:  # a hash of unknown fields: as if those of ours were absent
                continue
            use.mend()
            before = caches.counted(kind_of(key))
            garble()
            use.answers()
            assert caches.counted(kind_of(key)) > before, (key, way)
