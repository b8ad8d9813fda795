"""A runner of the command line, and a data folder that is ready to use."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from notifier.cli import main

Notifier = Callable[..., Result]


@pytest.fixture(scope="session")
def notifier() -> Notifier:
    """Run `notifier` with these arguments. Every exception except an exit is raised."""

    def run(*arguments: str, env: dict[str, str | None] | None = None) -> Result:
        return CliRunner().invoke(main, arguments, env=env, catch_exceptions=False, prog_name="notifier")

    return run


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory, notifier: Notifier) -> Path:
    """A folder for all tests of a module, with 2,000 people and three celebrities."""
    folder = tmp_path_factory.mktemp("data")
    options = ("--followers", "1000", "--universe", "2000", "--celebrities", "3", "--json", "--data", str(folder))
    assert notifier("fixture", *options).exit_code == 0
    return folder


@pytest.fixture
def folder(tmp_path: Path, notifier: Notifier) -> Path:
    assert notifier("migrate", "--data", str(tmp_path)).exit_code == 0
    return tmp_path
