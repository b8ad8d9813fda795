"""Loads the longer statements, each from its own file under queries/."""

from pathlib import Path

_QUERIES = Path(__file__).parents[1] / "queries"


def statement(name: str) -> str:
    return (_QUERIES / f"{name}.cql").read_text()
