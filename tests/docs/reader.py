"""Somebody who types what a page says, in a folder of their own, beside a service that runs."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import Page
from tests.repo.sources import ROOT

NOTIFIER = f"""#!/bin/sh
echo "notifier $*" >> "$TYPED"
case "$1" in
  up | demo) exec {sys.executable} -m tests.docs.understood "$@" ;;
  *) exec {sys.executable} -IS {ROOT}/tests/docs/warm.py "$WARM" "$@" ;;
esac
"""
"""What runs until it is stopped, or for minutes, is understood and not done: the service runs already."""
MAKE = f"""#!/bin/sh
echo "make $*" >> "$TYPED"
exec {shutil.which("make") or "make"} -n -C {ROOT} "$@" > /dev/null
"""
HERE = "http://127.0.0.1:8080"


@dataclass(frozen=True, kw_only=True)
class Reader:
    folder: Path
    """Holds `notifier-data`."""
    url: str
    warm: Path
    """Where commands are asked for."""

    def types(self, page: Page) -> tuple["subprocess.CompletedProcess[str]", list[str]]:
        """All blocks in one shell, which stops at the first command that fails; and the calls that were made."""
        typed = self.folder / "typed"
        typed.write_text("")
        plain = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
        environment = plain | {
            "PATH": f"{self._shims()}{os.pathsep}{plain['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TYPED": str(typed),
            "WARM": str(self.warm),
        }
        script = page.script.replace(HERE, self.url)
        if not shutil.which("curl"):  # not everywhere, and no dependency of ours
            script = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("curl "))
        done = subprocess.run(
            ["bash", "-eu", "-c", script],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, typed.read_text().splitlines()

    def _shims(self) -> Path:
        shims = self.folder / "bin"
        shims.mkdir(exist_ok=True)
        for name, content in (("notifier", NOTIFIER), ("make", MAKE)):
            (shims / name).write_text(content)
            (shims / name).chmod(0o755)
        return shims
