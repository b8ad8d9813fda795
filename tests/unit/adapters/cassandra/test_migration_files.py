"""CQL migration files: splitting into statements, idempotence and required comments."""

import re

import pytest

from notifier.adapters.cassandra.schema.migrate import FOLDER, split_statements

SCRIPTS = {path.name: path.read_text() for path in FOLDER.rglob("*.cql")}


def test_every_statement_can_be_run_twice() -> None:
    all_statements = [statement for script in SCRIPTS.values() for statement in split_statements(script)]
    assert len(all_statements) > 30
    assert [statement for statement in all_statements if not re.search(r"\bIF (NOT )?EXISTS\b", statement)] == []


def test_every_table_has_a_comment_above_it() -> None:
    comments = [
        (name, line)
        for script in SCRIPTS.values()
        for line, name in re.findall(r"^(.*)\nCREATE TABLE IF NOT EXISTS (\w+)", script, re.MULTILINE)
    ]
    assert len(comments) > 30
    assert [name for name, line in comments if not line.startswith("-- ")] == []


def test_every_table_sets_compaction_ttl_and_gc_grace() -> None:
    tables = [
        statement
        for script in SCRIPTS.values()
        for statement in split_statements(script)
        if statement.startswith("CREATE TABLE")
    ]
    required = ("compaction = {", "default_time_to_live = ", "gc_grace_seconds = ")
    assert [statement[:60] for statement in tables if not all(option in statement for option in required)] == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a;b;", ["a", "b"]),
        ("-- a;\na 'x;''--y' ;", ["a 'x;''--y'"]),
        ('/* a; */ b "x;y"; // c;\n', ['b "x;y"']),
        ("a $$ x; 'y $$;", ["a $$ x; 'y $$"]),
        (" \n-- nothing\n", []),
    ],
)
def test_script_is_split_at_statement_ends(script: str, expected: list[str]) -> None:
    assert list(split_statements(script)) == expected


def test_truncated_script_is_rejected() -> None:
    with pytest.raises(ValueError, match="Missing semicolon after: b"):
        list(split_statements("a; b"))
