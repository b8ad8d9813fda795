"""Writes docs/reference.md from the code: `python -m tests.docs.reference_page_generator > docs/reference.md`.

The page lists what an engineer looks up by name: commands, streams, tables, and the public classes of each module.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence

import click

from notifier.cli import main
from notifier.topics import GROUPS
from tests.repo.repository_files import PRODUCT, ROOT, Module, modules

STORES = {"SQLite": "migrations/sqlite", "Cassandra": "migrations/cassandra"}
MIGRATION = {".sql", ".cql"}
TABLE = re.compile(r"((?:^--.*\n)*)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)", flags=re.MULTILINE)
SENTENCE = re.compile(r".+?[.:](?=\s|$)", flags=re.DOTALL)
HEAD = """# Reference of names

Every command, stream, table, module and public class. The [glossary](glossary.md) defines the terms. Settings have
[a page of their own](settings.md), metrics stand in [operations](operations.md#metrics).

This page is written by `python -m tests.docs.reference_page_generator`.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *commands(), *streams(), *tables(), *classes()]) + "\n"


def commands() -> Iterator[str]:
    yield from heading("Commands", "command", "what it does")
    context = click.Context(main)
    for name in main.locations:
        command = main.get_command(context, name)
        assert command is not None
        yield row(f"`notifier {name}`", command.get_short_help_str(limit=200))
    yield ""


def streams() -> Iterator[str]:
    topics = tomllib.loads((ROOT / "migrations/kafka/topics.toml").read_text(encoding="utf-8"))
    yield from heading("Streams of the log", "stream", "consumer group", "partitions", "kept for")
    for stream, group in GROUPS.items():
        topic = topics[stream]
        yield row(f"`{stream}`", f"`{group}`", str(topic["partitions"]), f"{topic['retention_hours']} h")
    yield ""


def tables() -> Iterator[str]:
    stores: dict[str, list[str]] = {}
    meanings: dict[str, str] = {}
    for store, folder in STORES.items():
        for path in sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in MIGRATION):
            for comment, table in TABLE.findall(path.read_text(encoding="utf-8")):
                stores.setdefault(table, []).append(store)
                meanings[table] = meanings.get(table) or meaning(comment)
    yield from heading("Tables", "table", "store", "what a row is")
    for table in sorted(stores):
        yield row(f"`{table}`", ", ".join(dict.fromkeys(stores[table])), meanings[table])
    yield ""


def meaning(comment: str) -> str:
    """Return the first sentence that says what a row is. How a table is written ("LWT only") doesn't."""
    text = " ".join(line.lstrip("- ").strip() for line in comment.splitlines() if not line.endswith("----"))
    sentences = [sentence.strip().rstrip(":.") for sentence in SENTENCE.findall(text)]
    return next((sentence for sentence in sentences if not sentence.startswith("LWT only")), "")


def classes() -> Iterator[str]:
    yield from heading("Modules and public classes", "module", "what it does", "classes")
    for module in modules(*PRODUCT):
        if not module.path.endswith("__init__.py") or public_classes(module):
            names = ", ".join(f"`{name}`" for name in public_classes(module))
            yield row(f"`{module.path}`", summary(module), names)


def public_classes(module: Module) -> Sequence[str]:
    return [node.name for node in module.tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def summary(module: Module) -> str:
    return (ast.get_docstring(module.tree) or "").partition("\n")[0].rstrip(".").replace("|", "\\|")


def heading(title: str, *columns: str) -> Iterator[str]:
    yield from (f"## {title}", "", row(*columns), row(*["---"] * len(columns)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page(), end="")
