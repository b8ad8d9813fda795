"""What the operating system says of a process: how much memory it holds, and the most it ever held."""

import re
from pathlib import Path

MB = 1024 * 1024


def resident_mb(pid: int | str = "self") -> float:
    return _status(pid, "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """Since the process began, or since the peak was forgotten."""
    return _status(pid, "VmHWM")


def forget_peak() -> None:
    """From now on the peak counts anew; only Linux can."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(pid: int | str, name: str) -> float:
    """0 for a process that is no more."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0
