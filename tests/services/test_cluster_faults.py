"""The cluster profile under faults that take seconds. Slower faults: docs/cluster.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.devkit.engines.maven import missing_tools

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        bool(missing_tools()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing_tools())}"
    ),
]
QUICK = ("log_down_503", "store_outage", "poison_record")
"""Lease take-over and row TTLs have their own tests, on the adapters."""


def test_cluster_with_failing_parts_loses_nothing(tmp_path: Path) -> None:
    only = [argument for name in QUICK for argument in ("--only", name)]
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks", "chaos", "--quick", *only, "--json"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
        | {"TMPDIR": str(tmp_path)},
        check=False,
    )
    report = json.loads(process.stdout.splitlines()[-1])
    checks = {check["name"]: check for check in report["checks"]}
    assert report["profile"] == "cluster"
    assert set(checks) == set(QUICK)
    failed = {name: check["detail"] for name, check in checks.items() if not check["ok"]}
    assert failed == {}, process.stderr
    assert [*tmp_path.iterdir()] == []
