"""Describes the measuring machine, without anything that identifies it or its owner."""

import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def machine() -> Mapping[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": _file_system(Path(tempfile.gettempdir()).resolve()),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def commit(root: Path) -> str:
    """Return the measured commit. Documents may differ from it."""
    short = _git(root, "rev-parse", "--short=12", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", ".", ":!docs")
    return f"{short}, with changes" if changed else short or "unknown"


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), flags=re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system that contains the folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    around = [(len(place), kind) for place, kind in mounts if folder.is_relative_to(place)]
    return max(around, default=(0, "unknown"))[1]
