"""Downloads the jars of an engine with Maven, once, into a cache folder."""

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from notifier.domain.errors import UnusableEnvironment

DOWNLOAD_TIMEOUT_SECONDS = 600.0
"""Time limit of a download. An engine has some 60 MB of jars."""
REMEDY = "Install Java 17 and Maven (on Debian: apt-get install openjdk-17-jre-headless maven)."


def jars(pom: Path, cache: Path) -> Path:
    """Return the folder with the jars of a pom.xml. Download them if they are missing."""
    _require_tool("java")
    folder = cache / f"{pom.parent.name}-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        _fetch(pom, folder)
    return folder


def missing_tools() -> list[str]:
    """Return the required tools that are not installed on this machine."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def _fetch(pom: Path, folder: Path) -> None:
    """Download into a temporary folder and rename the result, so that no process sees an incomplete folder."""
    _require_tool("mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    shutil.copy(pom, temporary / "pom.xml")
    command = ["mvn", "-q", "-B", "-f", str(temporary / "pom.xml"), "package"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_SECONDS, check=False)
        if result.returncode:
            output = (result.stdout + result.stderr).strip().splitlines()
            raise UnusableEnvironment(f"Maven can't download the jars of {pom.parent.name}: {' '.join(output[:3])}")
        _install(temporary / "lib", folder)
    except subprocess.TimeoutExpired as error:
        raise UnusableEnvironment(
            f"Maven didn't download the jars of {pom.parent.name} within {DOWNLOAD_TIMEOUT_SECONDS:g} s."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _install(lib: Path, folder: Path) -> None:
    try:
        os.rename(lib, folder)
    except OSError:
        if not folder.exists():  # else a concurrent process has installed the same jars
            raise


def _require_tool(tool: str) -> None:
    if shutil.which(tool) is None:
        raise UnusableEnvironment(f"{tool} is not installed. {REMEDY}")
