"""Contract tests of one backend also run for its counterpart."""

import re
import subprocess
import sys
from collections import defaultdict
from functools import cache

import pytest

from tests.repo.repository_files import ROOT

COUNTERPARTS = {"sqlite": {"cassandra", "kafka"}, "memory": {"sqlite", "valkey", "celery"}}
"""Each contract test of the backend must run for at least one of these."""
IN_MEMORY_ONLY = {"in_memory"}
"""Tests of properties that only the in-memory fake has."""
ID = re.compile(r"::(\w+)\[(\w+)(-[^\]]*)?\]$")


@cache
def collected_backends() -> dict[tuple[str, str], set[str]]:
    """Return the backends by test name and other parameters."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/contracts"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    backends: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in output.splitlines():
        if match := ID.search(line):
            backends[match[1], match[3] or ""].add(match[2])
    return backends


@pytest.mark.parametrize("backend", COUNTERPARTS)
def test_backend_tests_also_run_for_a_counterpart(backend: str) -> None:
    tested = {test: backends for test, backends in collected_backends().items() if backend in backends}
    assert len(tested) > 100
    missing = {test for test, backends in tested.items() if not backends & COUNTERPARTS[backend]}
    assert {name for name, _ in missing if not any(marker in name for marker in IN_MEMORY_ONLY)} == set()
