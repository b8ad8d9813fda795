"""The jars of an engine: what its pom.xml names, fetched once by Maven into a folder that the next start finds."""

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from notifier.domain.errors import Environment

FETCHED_WITHIN = 600.0
"""Seconds; some 60 MB an engine."""
REMEDY = "Install Java 17 and Maven (on Debian: apt-get install openjdk-17-jre-headless maven)."


def jars(pom: Path, cache: Path) -> Path:
    """The folder with the jars. Raises Environment, with the remedy, when they can't be had."""
    _needed("java")
    found = cache / f"{pom.parent.name}-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not found.exists():
        _fetch(pom, found)
    return found


def missing() -> list[str]:
    """Which of the tools that the engines need are not on this machine."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def _fetch(pom: Path, into: Path) -> None:
    """Into a folder beside, which gets the name when it is whole: nobody finds half of the jars."""
    _needed("mvn")
    into.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(mkdtemp(prefix=f".{into.name}-", dir=into.parent))
    shutil.copy(pom, beside / "pom.xml")
    command = ["mvn", "-q", "-B", "-f", str(beside / "pom.xml"), "package"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCHED_WITHIN, check=False)
        if done.returncode:
            words = (done.stdout + done.stderr).strip().splitlines()
            raise Environment(f"Maven doesn't get the jars of {pom.parent.name}: {' '.join(words[:3])}")
        _take(beside / "lib", into)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _take(lib: Path, into: Path) -> None:
    try:
        os.rename(lib, into)
    except OSError:
        if not into.exists():  # else another process was quicker, with the same jars
            raise


def _needed(tool: str) -> None:
    if shutil.which(tool) is None:
        raise Environment(f"There is no {tool} here. {REMEDY}")
