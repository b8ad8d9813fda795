"""Loads long statements; each has its own file under queries/."""

from pathlib import Path

_QUERIES = Path(__file__).parents[1] / "queries"


def load_statement(name: str) -> str:
    """Return the text of `queries/<name>.cql`."""
    return (_QUERIES / f"{name}.cql").read_text()
