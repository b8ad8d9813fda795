"""Time, chance, the environment and the outside world come in through seams, and nothing starts at import."""

import subprocess
import sys

import pytest

from tests.repo.sources import PRODUCT, ROOT, Module, modules

ENVIRONMENT = {"os.environ", "os.environb", "os.getenv"}
READS_A_CLOCK = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
# The domain is pure; a stage gets its clock, its dice and its hosts through ports.
OUTSIDE_OF_FLOW = {"multiprocessing", "os", "random", "secrets", "socket", "sqlite3", "subprocess", "threading", "time"}
OUTSIDE_OF_DOMAIN = OUTSIDE_OF_FLOW | {"asyncio", "concurrent", "io", "logging", "pathlib", "signal", "tempfile"}

# Imports every module in a fresh interpreter and stops at the first effect that reaches outside.
IMPORT_EVERYTHING = """
import importlib, sys, threading

EFFECTS = {
    "socket.connect", "socket.bind", "sqlite3.connect", "subprocess.Popen", "os.fork", "os.posix_spawn", "os.system",
    "thread",
}

def refuse(event, args=()):
    if event in EFFECTS:
        raise RuntimeError(f"{event} while {current} is imported")

sys.addaudithook(refuse)
threading.Thread.start = lambda thread: refuse("thread")
for current in sys.argv[1:]:
    importlib.import_module(current)
"""


def test_only_config_reads_the_environment() -> None:
    readers = [module.path for module in modules(*PRODUCT) if ENVIRONMENT & set(module.names_used())]
    assert set(readers) <= {"notifier/config/loader.py"}


@pytest.mark.parametrize(
    ("folder", "outside"), [("notifier/domain", OUTSIDE_OF_DOMAIN), ("notifier/flow", OUTSIDE_OF_FLOW)]
)
def test_decisions_have_no_clock_no_chance_and_no_io(folder: str, outside: set[str]) -> None:
    reached = {module.path: found for module in modules(folder) if (found := reaches(module, outside))}
    assert reached == {}


def test_nothing_connects_or_starts_at_import() -> None:
    names = [module.name for module in modules(*PRODUCT) if not module.name.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def reaches(module: Module, outside: set[str]) -> set[str]:
    used = set(module.names_used())
    clocks = {name for name in used if name.removeprefix("datetime.") in READS_A_CLOCK or name in READS_A_CLOCK}
    return clocks | ({name.partition(".")[0] for name in module.imports()} & outside)
