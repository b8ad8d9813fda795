"""A file of CQL as single statements: Cassandra takes no more than one at a time."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<end>;)"
    r"|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$|.",
    re.DOTALL,
)


def statements(script: str) -> Iterator[str]:
    """Without comments and semicolons. Raises ValueError at the end of a file that was cut off within a statement."""
    statement = ""
    for token in _TOKEN.finditer(script):
        if token["end"]:
            yield statement.strip()
            statement = ""
        elif not token["comment"]:
            statement += token[0]
    if statement.strip():
        raise ValueError(f"There is no semicolon behind: {statement.strip()[:60]}")
