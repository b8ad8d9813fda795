"""CI runs what people run."""

import os

from tests.repo.sources import ROOT


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    assert any("make test" in line for line in commands)
