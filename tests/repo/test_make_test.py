"""CI runs `make test` with all variations, and that fails with any of its checks."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.repo.repository_files import ROOT

EARLY = ["ruff", "lint-imports"]
TOOLS = [*EARLY, "mypy", "python"]


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    assert any(" make test ALL=1 " in line and line.startswith("timeout ") for line in commands)


@pytest.mark.parametrize("failing", [None, *TOOLS])
def test_make_test_fails_with_any_check_and_shows_the_output(failing: str | None, tmp_path: Path) -> None:
    """The type check runs in parallel to the tests, which are `python -m pytest`."""
    for path in ("requirements/dev.txt", "pyproject.toml", ".venv/.ready"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    for name in TOOLS:
        tool = tmp_path / ".venv" / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\necho {name} was here\nexit {int(name == failing)}\n")
        tool.chmod(0o755)
    result = subprocess.run(
        ["make", "-f", ROOT / "Makefile", "test"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (result.returncode == 0) is (failing is None), result.stdout + result.stderr
    expected = TOOLS[: TOOLS.index(failing) + 1] if failing in EARLY else TOOLS
    assert [name for name in TOOLS if f"{name} was here" in result.stdout] == expected
