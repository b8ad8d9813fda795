"""Roles prepare the Cassandra statements before their first work."""

import ast
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.adapters.cassandra.driver.statements import prepare_statements, statements
from notifier.cli.opened_stores import system_of
from notifier.config import Settings
from notifier.devkit.engines.engine_process import free_port
from notifier.domain.errors import StoreUnavailable
from notifier.profiles import Profile, choose

FOLDER = Path(package.__path__[0])
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def statements_in_source() -> Iterator[str]:
    """Yield every statement of the package that binds values, whatever file it is in."""
    yield from (path.read_text() for path in (FOLDER / "queries").glob("*.cql"))
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip().startswith(VERBS):
                yield node.value


def test_every_binding_statement_is_in_the_list() -> None:
    bound = {statement for statement in statements_in_source() if "?" in statement}
    assert len(bound) > 80
    assert bound <= set(statements())


def test_prepare_covers_all_statements_in_a_new_session(shared_cluster: Cluster) -> None:
    with closing(Cluster(shared_cluster.access)) as cluster:
        assert not any(cluster.cached_statement(statement) for statement in statements())
        prepare_statements(cluster)
        assert all(cluster.cached_statement(statement) for statement in statements())


def test_prepare_stops_at_its_deadline(shared_cluster: Cluster) -> None:
    with closing(Cluster(shared_cluster.access)) as cluster:
        prepare_statements(cluster, timeout=0.0)
        assert not any(cluster.cached_statement(statement) for statement in statements())


def test_role_starts_when_store_is_unavailable(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(StoreUnavailable), closing(Cluster(CassandraAccess(hosts=["127.0.0.1"], port=port))) as cluster:
        prepare_statements(cluster)
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "settings.toml").write_text(
        'redis_url = "redis://127.0.0.1:1"\n[kafka]\nservers = "127.0.0.1:1"\n'
        f'[cassandra]\nhosts = "127.0.0.1"\nport = {port}\n'
    )
    settings = Settings.read(data=tmp_path, profile="cluster")
    with closing(choose(settings)) as profile:
        started = time.monotonic()
        profile.warm()
    assert time.monotonic() < started + 15


def test_role_is_warmed_before_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, warmed = Settings.read(data=tmp_path), list[Profile]()
    with closing(choose(settings)) as profile:
        profile.ensure_schema()
        monkeypatch.setattr(profile, "warm", lambda: warmed.append(profile))
        system_of(profile, settings, "p1")
        assert warmed == [profile]
