"""The embedded profile and the help of every command need no optional library."""

import subprocess
import sys

import pytest

BLOCKED = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"cassandra", "confluent_kafka", "crc32c", "firebase_admin", "kafka", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""
COMMANDS = (["--help"], ["up", "--help"], ["doctor", "--help"], ["import", "users", "--help"])
HEAVY = {"cassandra", "celery", "kafka", "litestar", "pyarrow", "redis"}


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_command_runs_without_optional_libraries(arguments: list[str]) -> None:
    result = run(f"from notifier.cli import main; main({arguments!r}, prog_name='notifier')")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        "notifier.adapters.celery.queue",
        "notifier.profiles.embedded",
        "notifier.api.api_process",
        "notifier.cli.supervisor.pump_consumers_and_jobs",
        "workers.celery_worker",
    ],
)
def test_role_is_imported_without_optional_libraries(module: str) -> None:
    result = run(f"import {module}")
    assert (result.returncode, result.stderr) == (0, "")


def test_rows_of_csv_are_imported_without_optional_libraries() -> None:
    result = run("from notifier.cli.commands.import_.loader import follow_dataset, preference_dataset")
    assert (result.returncode, result.stderr) == (0, "")


def test_help_imports_no_heavy_library() -> None:
    code = f"""
import sys
from notifier.cli import main
try:
    main(["--help"], prog_name="notifier")
finally:
    print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.strip() == "[]"
