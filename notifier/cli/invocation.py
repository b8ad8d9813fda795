"""Spelling: how this very command is typed again from where one stands, so that a line that is shown can be copied."""

import os
import shlex
import shutil
import sys
from pathlib import Path

OURS = "notifier"


def command(argv0: str | None = None, here: Path | None = None, path: str | None = None) -> str:
    """`notifier` where that finds the one that runs; else its path, or the Python that runs it, as short as it gets.

    Without an argument: of this process, the folder it stands in and its PATH.
    """
    began, here = sys.argv[0] if argv0 is None else argv0, here or Path.cwd()
    if Path(began).name == "__main__.py":
        return f"{_short(Path(sys.executable), here)} -m {OURS}"
    if Path(began).name != OURS:  # somebody else's program that calls us
        return OURS
    typed = here / began if os.sep in began else Path(shutil.which(began, path=path) or began)
    return OURS if _found_by_name(typed, path) else _short(typed, here)


def _found_by_name(typed: Path, path: str | None) -> bool:
    found = shutil.which(OURS, path=path)
    return found is not None and typed.exists() and os.path.samefile(found, typed)


def _short(path: Path, here: Path) -> str:
    """No link is followed: the Python of a virtual environment is a link to one that knows nothing of us."""
    whole = os.path.abspath(path)
    relative = os.path.relpath(whole, here)
    if os.sep not in relative:
        relative = os.path.join(os.curdir, relative)
    return shlex.quote(min(whole, relative, key=len))
