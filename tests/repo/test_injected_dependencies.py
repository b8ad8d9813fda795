"""Time, randomness, the environment and I/O are injected, and importing has no side effects."""

import subprocess
import sys

import pytest

from tests.repo.repository_files import PRODUCT, ROOT, Module, modules

ENVIRONMENT = {"os.environ", "os.environb", "os.getenv"}
READS_A_CLOCK = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
# The domain is pure; a stage gets its clock, random source and hosts through ports.
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
    assert set(readers) <= {"notifier/config/settings_and_environment.py"}


@pytest.mark.parametrize(
    ("folder", "outside"), [("notifier/domain", OUTSIDE_OF_DOMAIN), ("notifier/flow", OUTSIDE_OF_FLOW)]
)
def test_domain_and_flow_use_no_clock_randomness_or_io(folder: str, outside: set[str]) -> None:
    violations = {module.path: names for module in modules(folder) if (names := forbidden_names(module, outside))}
    assert violations == {}


def test_importing_has_no_side_effects() -> None:
    names = [module.name for module in modules(*PRODUCT) if not module.name.endswith("__main__")]
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def forbidden_names(module: Module, outside: set[str]) -> set[str]:
    used = set(module.names_used())
    clocks = {name for name in used if name.removeprefix("datetime.") in READS_A_CLOCK or name in READS_A_CLOCK}
    return clocks | ({name.partition(".")[0] for name in module.imports()} & outside)
