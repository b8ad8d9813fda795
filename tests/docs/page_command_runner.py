"""Runs the commands of a page in its own folder, beside a running service."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.document_pages import Page
from tests.repo.repository_files import ROOT

NOTIFIER = f"""#!/bin/sh
echo "notifier $*" >> "$TYPED"
case "$1" in
  up | demo) exec {sys.executable} -m tests.docs.command_line_check "$@" ;;
  *) exec {sys.executable} -IS {ROOT}/tests/docs/command_fork_server.py "$WARM" "$@" ;;
esac
"""
"""Commands that run for long or until stopped are only parsed, because the service runs already."""
MAKE = f"""#!/bin/sh
echo "make $*" >> "$TYPED"
exec {shutil.which("make") or "make"} -n -C {ROOT} "$@" > /dev/null
"""
DOCUMENTED_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, kw_only=True)
class Reader:
    folder: Path
    """Contains `notifier-data`."""
    url: str
    command_server: Path
    """Socket of the process that runs the commands."""

    def run_page(self, page: Page) -> tuple["subprocess.CompletedProcess[str]", list[str]]:
        """Run all blocks in one shell that stops at the first failure; return its result and the calls made."""
        typed_file = self.folder / "typed"
        typed_file.write_text("")
        outer_environment = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
        environment = outer_environment | {
            "PATH": f"{self._shims()}{os.pathsep}{outer_environment['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TYPED": str(typed_file),
            "WARM": str(self.command_server),
        }
        script = page.script.replace(DOCUMENTED_URL, self.url)
        if not shutil.which("curl"):  # optional: curl is not a dependency of the project
            script = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("curl "))
        result = subprocess.run(
            ["bash", "-eu", "-c", script],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return result, typed_file.read_text().splitlines()

    def _shims(self) -> Path:
        shims = self.folder / "bin"
        shims.mkdir(exist_ok=True)
        for name, content in (("notifier", NOTIFIER), ("make", MAKE)):
            (shims / name).write_text(content)
            (shims / name).chmod(0o755)
        return shims
