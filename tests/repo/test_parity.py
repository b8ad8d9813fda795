"""Every contract is asked of both profiles: what holds for one backend is tried on its counterpart, word for word."""

import re
import subprocess
import sys
from collections import defaultdict
from functools import cache

import pytest

from tests.repo.sources import ROOT

COUNTERPARTS = {"sqlite": {"cassandra", "kafka"}, "memory": {"sqlite", "valkey", "celery"}}
"""One of them at least."""
ALONE = {"in_memory"}
"""What the fake alone has to show."""
ID = re.compile(r"::(\w+)\[(\w+)(-[^\]]*)?\]$")


@cache
def asked() -> dict[tuple[str, str], set[str]]:
    """The backends by test and by whatever else it is given."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/contracts"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in said.splitlines():
        if match := ID.search(line):
            found[match[1], match[3] or ""].add(match[2])
    return found


@pytest.mark.parametrize("backend", COUNTERPARTS)
def test_what_is_asked_of_one_backend_is_asked_of_its_counterpart(backend: str) -> None:
    those = {test: backends for test, backends in asked().items() if backend in backends}
    assert len(those) > 100
    missing = {test for test, backends in those.items() if not backends & COUNTERPARTS[backend]}
    assert {name for name, _ in missing if not any(word in name for word in ALONE)} == set()
