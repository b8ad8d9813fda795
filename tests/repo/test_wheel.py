"""What is built from this repository runs without it: the wheel holds every file that the code reads."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from notifier.adapters.sqlite.files import INBOXES
from tests.repo.sources import PRODUCT, ROOT

READ_BY_THE_CODE = {".css", ".html", ".js", ".sql", ".cql", ".lua", ".toml", ".txt", ".typed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because a build leaves folders behind and takes up what an earlier one left."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in (*PRODUCT, "migrations"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", "built", "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [built] = (source / "built").glob("*.whl")
    return built


def test_the_wheel_holds_every_migration_and_every_other_file_that_is_read(wheel: Path) -> None:
    wanted = {f"notifier/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "migrations").rglob("*.*")}
    wanted |= {
        path.relative_to(ROOT).as_posix()
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in READ_BY_THE_CODE | {".py"} or path.name == "py.typed"
    }
    with ZipFile(wheel) as file:
        held = set(file.namelist())
    assert any(name.endswith("core/0001_core_tables.sql") for name in wanted)
    assert wanted - held == set()


def test_an_installed_wheel_makes_a_data_folder(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    code = "import notifier, sys; print(notifier.__file__, file=sys.stderr); from notifier.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "migrate", "--data", str(tmp_path / "data"), "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(str(tmp_path / "site"))
    by_kind = {path.name: len(list(path.glob("*.sql"))) for path in (ROOT / "migrations" / "sqlite").iterdir()}
    assert json.loads(done.stdout)["steps"] == by_kind["log"] + by_kind["core"] + INBOXES * by_kind["inbox"]
