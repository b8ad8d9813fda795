"""What a role has prepared before its first work: all that anybody of this version may ask Cassandra."""

import ast
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.adapters.cassandra.driver.warmup import prepare, statements
from notifier.cli.context import system_of
from notifier.config import Settings
from notifier.devkit.engines.engine import free_port
from notifier.domain.errors import StoreUnavailable
from notifier.profiles import Profile, choose

FOLDER = Path(package.__path__[0])
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def written() -> Iterator[str]:
    """Every statement that binds values, wherever it stands in the package."""
    yield from (path.read_text() for path in (FOLDER / "queries").glob("*.cql"))
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip().startswith(VERBS):
                yield node.value


def test_every_statement_that_binds_values_is_known_beforehand() -> None:
    bound = {statement for statement in written() if "?" in statement}
    assert len(bound) > 80
    assert bound <= set(statements())


def test_all_are_prepared_by_one_who_has_asked_nothing_yet(contracts: Cluster) -> None:
    with closing(Cluster(contracts.access)) as cluster:
        assert not any(cluster.remembered(statement) for statement in statements())
        prepare(cluster)
        assert all(cluster.remembered(statement) for statement in statements())


def test_no_more_is_prepared_when_the_time_is_up(contracts: Cluster) -> None:
    with closing(Cluster(contracts.access)) as cluster:
        prepare(cluster, within=0.0)
        assert not any(cluster.remembered(statement) for statement in statements())


def test_a_store_that_is_away_is_said_and_a_role_starts_all_the_same(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(StoreUnavailable), closing(Cluster(CassandraAccess(hosts=["127.0.0.1"], port=port))) as cluster:
        prepare(cluster)
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "settings.toml").write_text(
        'redis_url = "redis://127.0.0.1:1"\n[kafka]\nservers = "127.0.0.1:1"\n'
        f'[cassandra]\nhosts = "127.0.0.1"\nport = {port}\n'
    )
    settings = Settings.read(data=tmp_path, profile="cluster")
    with closing(choose(settings)) as profile:
        began = time.monotonic()
        profile.warm()
    assert time.monotonic() < began + 5


def test_a_role_is_warm_before_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, warmed = Settings.read(data=tmp_path), list[Profile]()
    with closing(choose(settings)) as profile:
        profile.prepare()
        monkeypatch.setattr(profile, "warm", lambda: warmed.append(profile))
        system_of(profile, settings, "p1")
        assert warmed == [profile]
