"""Reads memory, peak memory and CPU time of a process from the operating system."""

import ctypes
import gc
import os
import re
import resource
from contextlib import suppress
from pathlib import Path

MB = 1024 * 1024


def resident_mb(pid: int | str = "self") -> float:
    return _status(pid, "VmRSS")


def peak_mb(pid: int | str = "self") -> float:
    """Return the peak memory since the process began, or since the last reset."""
    return _status(pid, "VmHWM")


def forget_peak() -> None:
    """Reset the peak, after returning free memory to the system. Works on Linux only."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def processor_s(pid: int) -> float:
    """Return the CPU seconds of all threads since the process began, in hundredths of a second."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()  # the name before may contain spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def allow_files(count: int) -> None:
    """Raise the limit of open files for this process and its children, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard < 0 else min(count, hard), hard))


def _status(pid: int | str, name: str) -> float:
    """Return a value in MB, or 0 if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    match = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(match[1]) / 1024 if match else 0.0
