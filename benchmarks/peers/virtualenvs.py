"""The peers' virtual environments, created from hashed pins and after each change of them."""

import platform
import subprocess
import sys
import venv
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

PINS = Path(__file__).parent / "pins"
BUILD = PINS / "build.txt"
PIP = (
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-build-isolation",
    "--require-hashes",
    "-r",
)
STAMP = "made-from"
CREATE_TIMEOUT_SECONDS = 300.0
"""Time limit for one environment. Ten seconds are usual."""


class NotPrepared(RuntimeError):
    """An environment could not be created, usually because the package registry can't be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    folder: Path

    def __call__(self, name: str) -> Path:
        """Return the Python of an environment with the packages of `name`.txt. Raises NotPrepared."""
        place = self._place(name)
        python = place / "bin" / "python"
        if not self.installed(name):
            venv.create(place, clear=True, with_pip=True)
            _install(python, BUILD)
            _install(python, PINS / f"{name}.txt")
            (place / STAMP).write_text(_digest(name))  # last, so that an interrupted environment is created again
        return python

    def installed(self, name: str) -> bool:
        """Return whether the environment exists and was created from the present pins."""
        stamp = self._place(name) / STAMP
        return stamp.exists() and stamp.read_text() == _digest(name)

    def _place(self, name: str) -> Path:
        return self.folder.absolute() / name


def _digest(name: str) -> str:
    pins = BUILD.read_bytes() + (PINS / f"{name}.txt").read_bytes()
    return sha256(pins + f"{sys.executable} {platform.python_version()}".encode()).hexdigest()


def _install(python: Path, pins: Path) -> None:
    done = subprocess.run(
        [python, *PIP, pins],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CREATE_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip printed nothing"]
        raise NotPrepared(f"cannot install {pins.name}: {lines[-1]}")
