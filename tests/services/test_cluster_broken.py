"""The cluster profile as a whole, broken on purpose: those ways that take seconds. The others: docs/cluster.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notifier.devkit.engines.maven import missing

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]
QUICK = ("log_down_503", "store_outage", "poison_record")
"""Take-over and lives have tests of their own, on the adapters."""


def test_a_cluster_whose_parts_fail_loses_nothing_and_says_what_is_wrong(tmp_path: Path) -> None:
    only = [word for name in QUICK for word in ("--only", name)]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "chaos", "--quick", *only, "--json"],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
        | {"TMPDIR": str(tmp_path)},
        check=False,
    )
    report = json.loads(ran.stdout.splitlines()[-1])
    found = {check["name"]: check for check in report["checks"]}
    assert report["profile"] == "cluster"
    assert set(found) == set(QUICK)
    wrong = {name: check["detail"] for name, check in found.items() if not check["ok"]}
    assert wrong == {}, ran.stderr
    assert [*tmp_path.iterdir()] == []
