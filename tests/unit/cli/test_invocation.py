"""How our command is spelled in the lines that are shown to be copied."""

import sys
from pathlib import Path

import pytest

from notifier.cli.group import command

NOWHERE = "/nowhere"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with an installation in it, as `make setup` leaves it."""
    script = tmp_path / "cl one" / ".venv" / "bin" / "notifier"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script.parents[2]


def test_what_make_demo_starts_is_spelled_as_its_path_from_here(clone: Path) -> None:
    assert command(".venv/bin/notifier", clone, NOWHERE) == ".venv/bin/notifier"
    assert command(str(clone / ".venv/bin/notifier"), clone, NOWHERE) == ".venv/bin/notifier"
    assert command("./notifier", clone / ".venv/bin", NOWHERE) == "./notifier"


def test_from_elsewhere_it_is_the_shorter_path_and_good_for_a_shell(clone: Path) -> None:
    assert command(str(clone / ".venv/bin/notifier"), clone.parent, NOWHERE) == "'cl one/.venv/bin/notifier'"
    assert command("/opt/n/bin/notifier", Path("/home/somebody/with/a/deep/folder"), NOWHERE) == "/opt/n/bin/notifier"


def test_its_name_alone_is_shown_only_where_that_finds_it(clone: Path) -> None:
    bin = str(clone / ".venv/bin")
    assert command(str(clone / ".venv/bin/notifier"), clone, bin) == "notifier"
    assert command("notifier", clone, bin) == "notifier"
    other = clone / "notifier"
    other.write_text("#!/bin/sh\n")
    assert command(str(other), clone, bin) == "./notifier"


def test_a_module_that_is_run_by_python_is_spelled_with_that_python(tmp_path: Path) -> None:
    assert command("/x/notifier/__main__.py", Path("/")).endswith(" -m notifier")
    assert (tmp_path / command("/x/notifier/__main__.py", tmp_path).split()[0]).samefile(sys.executable)
