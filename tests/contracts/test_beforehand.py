"""What a role has prepared before its first work: all that it may ask Cassandra, and nothing that isn't asked."""

import ast
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import notifier.adapters.cassandra as package
from notifier.adapters.cassandra import Cluster
from notifier.adapters.cassandra.beforehand import prepare, statements

FOLDER = Path(package.__path__[0])
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def written() -> Iterator[str]:
    """Every statement that binds values, wherever it stands in the package."""
    yield from (path.read_text() for path in (FOLDER / "queries").glob("*.cql"))
    for path in FOLDER.glob("*.py"):
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
