"""The wheel holds every file that the code reads, and works without the repository."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from notifier.adapters.sqlite.database_and_query_files import INBOX_FILE_COUNT
from tests.repo.repository_files import PRODUCT, ROOT

READ_BY_THE_CODE = {".css", ".html", ".js", ".sql", ".cql", ".lua", ".toml", ".txt", ".typed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: a build leaves folders behind, and picks up those of an earlier build."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in (*PRODUCT, "migrations"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", "built", "."]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    [built] = (source / "built").glob("*.whl")
    return built


def test_wheel_holds_every_migration_and_data_file(wheel: Path) -> None:
    expected = {f"notifier/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "migrations").rglob("*.*")}
    expected |= {
        path.relative_to(ROOT).as_posix()
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in READ_BY_THE_CODE | {".py"} or path.name == "py.typed"
    }
    with ZipFile(wheel) as file:
        packed = set(file.namelist())
    assert any(name.endswith("core/0001_core_tables.sql") for name in expected)
    assert expected - packed == set()


def test_installed_wheel_creates_a_data_folder(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    code = "import notifier, sys; print(notifier.__file__, file=sys.stderr); from notifier.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "migrate", "--data", str(tmp_path / "data"), "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith(str(tmp_path / "site"))
    by_kind = {path.name: len(list(path.glob("*.sql"))) for path in (ROOT / "migrations" / "sqlite").iterdir()}
    assert json.loads(result.stdout)["steps"] == by_kind["log"] + by_kind["core"] + INBOX_FILE_COUNT * by_kind["inbox"]
