"""Files of CQL: split where their statements end, and fit to be run twice."""

import re

import pytest

from notifier.adapters.cassandra.schema.migrate import FOLDER, statements

SCRIPTS = {path.name: path.read_text() for path in FOLDER.rglob("*.cql")}


def test_every_statement_of_ours_bears_being_run_twice() -> None:
    every = [statement for script in SCRIPTS.values() for statement in statements(script)]
    assert len(every) > 30
    assert [one for one in every if not re.search(r"\bIF (NOT )?EXISTS\b", one)] == []


def test_every_table_says_why_it_is_as_it_is() -> None:
    above = [
        (name, line)
        for script in SCRIPTS.values()
        for line, name in re.findall(r"^(.*)\nCREATE TABLE IF NOT EXISTS (\w+)", script, re.MULTILINE)
    ]
    assert len(above) > 30
    assert [name for name, line in above if not line.startswith("-- ")] == []


def test_every_table_of_ours_decides_its_compaction_its_ttl_and_its_grace() -> None:
    made = [one for script in SCRIPTS.values() for one in statements(script) if one.startswith("CREATE TABLE")]
    wanted = ("compaction = {", "default_time_to_live = ", "gc_grace_seconds = ")
    assert [one[:60] for one in made if not all(word in one for word in wanted)] == []


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
def test_a_script_is_split_where_its_statements_end(script: str, expected: list[str]) -> None:
    assert list(statements(script)) == expected


def test_a_script_that_was_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="no semicolon behind: b"):
        list(statements("a; b"))
