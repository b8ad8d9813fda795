"""Garbage in Redis counts as absent, for each adapter and kind of key."""

import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest

from notifier.adapters import redis
from notifier.adapters.redis.keys_checksums_lua_scripts import KEY_TYPES, KeyKind, kind_of
from tests.contracts.calls_of_all_redis_adapters import Caches, caches_on
from tests.contracts.calls_of_one_redis_adapter import AdapterCalls
from tests.contracts.redis_garbage import Garble, corruptions, replacements
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server

__all__ = ["valkey", "valkey_server"]

ADAPTER_NAMES = (
    "activity",
    "backlog",
    "token_buckets",
    "bus",
    "frequency_caps",
    "open_circuits",
    "provider_rates",
    "backpressure",
    "pull_index",
    "recent_events",
    "inbox_latency",
    "versions",
)


@pytest.fixture
def caches(valkey: Valkey) -> Iterator[Caches]:
    with caches_on(valkey) as caches_:
        yield caches_


@pytest.fixture
def clustered(valkeys: Valkey) -> Iterator[Caches]:
    with caches_on(valkeys) as caches_:
        yield caches_


def keys(server: Valkey) -> list[str]:
    clients = getattr(server, "clients", [server.client])
    return sorted(key.decode() for client in clients for key in client.scan_iter())


def distinct_keys(server: Valkey) -> list[str]:
    """Return the keys, with one full and one empty list of the pull index: its other keys resemble these."""
    distinct: dict[object, str] = {}
    for key in keys(server):
        distinct.setdefault(server.client.hlen(key) if kind_of(key) is KeyKind.PULL_INDEX else key, key)
    return list(distinct.values())


def adapters() -> Iterator[type]:
    """Yield the adapter classes: all named Redis…, except those of the modules that adapters are built from."""
    for module in pkgutil.iter_modules(redis.__path__):
        if module.name in ("pipelined_calls", "version_lookup_connection", "server_client"):
            continue
        module_ = import_module(f"{redis.__name__}.{module.name}")
        yield from (
            adapter
            for name, adapter in vars(module_).items()
            if name.startswith("Redis") and adapter.__module__ == module_.__name__
        )


def test_every_adapter_method_is_tested_with_garbage(caches: Caches) -> None:
    calls_by_adapter = caches.calls_by_adapter()
    assert sorted(calls_by_adapter) == sorted(ADAPTER_NAMES)
    for adapter_calls in calls_by_adapter.values():
        adapter_calls.repair()
        for call in [*adapter_calls.writes.values(), *adapter_calls.reads.values()]:
            call()
    methods = {
        (adapter, name)
        for adapter in adapters()
        for name, _ in inspect.getmembers(adapter, inspect.isfunction)
        if not name.startswith("_")
    }
    assert caches.used == methods


def test_every_key_has_a_kind_and_every_kind_occurs(caches: Caches) -> None:
    for adapter_calls in caches.calls_by_adapter().values():
        adapter_calls.repair()
    client: Any = caches.client
    types = {key: client.type(key).decode() for key in keys(caches.server)}
    assert types == {key: KEY_TYPES[kind_of(key)] for key in types}
    assert {kind_of(key) for key in types} == KEY_TYPES.keys() == set(KeyKind) - {KeyKind.LIVE}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ADAPTER_NAMES)
def test_garbage_is_absent_until_repair(caches: Caches, name: str) -> None:
    server, adapter_calls = caches.server, caches.calls_by_adapter()[name]
    empty, correct = results_before_and_after(adapter_calls)
    for key in distinct_keys(server):
        garbage_kinds = [*replacements(server.client, key), *corruptions(server.client, key)]
        assert_garbage_is_absent(adapter_calls, key, garbage_kinds, empty, correct)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ADAPTER_NAMES)
def test_garbage_is_absent_on_every_cluster_node(clustered: Caches, name: str) -> None:
    server, adapter_calls = clustered.server, clustered.calls_by_adapter()[name]
    empty, correct = results_before_and_after(adapter_calls)
    for key in distinct_keys(server):
        garbage_kinds = [
            garbage_kind
            for garbage_kind in replacements(server.client, key)
            if garbage_kind[0] in ("string: random bytes", "list", "hash")
        ]
        assert_garbage_is_absent(adapter_calls, key, garbage_kinds, empty, correct)


def results_before_and_after(adapter_calls: AdapterCalls) -> tuple[dict[str, object], dict[str, object]]:
    empty = adapter_calls.results()
    adapter_calls.repair()
    return empty, adapter_calls.results()


def assert_garbage_is_absent(
    adapter_calls: AdapterCalls,
    key: str,
    garbage_kinds: Iterable[tuple[str, Garble]],
    empty: dict[str, object],
    correct: dict[str, object],
) -> None:
    """Let each call meet garbage first: results must be correct or empty, and correct after the repair."""
    calls = [*adapter_calls.reads.items(), *adapter_calls.writes.items()]
    for number, (description, garble) in enumerate(garbage_kinds):
        first, call = calls[number % len(calls)]
        context = f"{key}, {description}, met by {first}"
        garble()
        call()
        results = adapter_calls.results()
        assert not [name for name, result in results.items() if result not in (correct[name], empty[name])], context
        adapter_calls.repair()
        assert adapter_calls.results() == correct, context


@pytest.mark.parametrize("name", ADAPTER_NAMES)
def test_garbage_is_counted_by_key_kind(caches: Caches, name: str) -> None:
    server, adapter_calls = caches.server, caches.calls_by_adapter()[name]
    adapter_calls.repair()
    for key in distinct_keys(server):
        for description, garble in replacements(server.client, key):
            if description == KEY_TYPES[kind_of(key)]:  # a hash of unknown fields looks as if our own were absent
                continue
            adapter_calls.repair()
            before = caches.garbage_count(kind_of(key))
            garble()
            adapter_calls.results()
            assert caches.garbage_count(kind_of(key)) > before, (key, description)
