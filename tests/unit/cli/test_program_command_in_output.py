"""How output shows the `notifier` command, so that users can copy it."""

import sys
from pathlib import Path

import pytest

from notifier.cli.command_groups_and_errors import program_command

NOWHERE = "/nowhere"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with an installation, as `make setup` leaves it."""
    script = tmp_path / "cl one" / ".venv" / "bin" / "notifier"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script.parents[2]


def test_command_in_the_current_folder_is_a_relative_path(clone: Path) -> None:
    assert program_command(".venv/bin/notifier", clone, NOWHERE) == ".venv/bin/notifier"
    assert program_command(str(clone / ".venv/bin/notifier"), clone, NOWHERE) == ".venv/bin/notifier"
    assert program_command("./notifier", clone / ".venv/bin", NOWHERE) == "./notifier"


def test_command_elsewhere_is_the_shorter_path_with_shell_quotes(clone: Path) -> None:
    assert program_command(str(clone / ".venv/bin/notifier"), clone.parent, NOWHERE) == "'cl one/.venv/bin/notifier'"
    assert (
        program_command("/opt/n/bin/notifier", Path("/home/somebody/with/a/deep/folder"), NOWHERE)
        == "/opt/n/bin/notifier"
    )


def test_bare_command_name_is_shown_only_when_on_the_path(clone: Path) -> None:
    bin = str(clone / ".venv/bin")
    assert program_command(str(clone / ".venv/bin/notifier"), clone, bin) == "notifier"
    assert program_command("notifier", clone, bin) == "notifier"
    local = clone / "notifier"
    local.write_text("#!/bin/sh\n")
    assert program_command(str(local), clone, bin) == "./notifier"


def test_module_run_by_python_is_shown_with_its_interpreter(tmp_path: Path) -> None:
    assert program_command("/x/notifier/__main__.py", Path("/")).endswith(" -m notifier")
    assert (tmp_path / program_command("/x/notifier/__main__.py", tmp_path).split()[0]).samefile(sys.executable)
