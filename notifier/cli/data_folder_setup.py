"""Creates the data folder and its folder of logs, and checks that they are writable."""

import os
import tempfile
from pathlib import Path

from notifier.domain.errors import Unwritable


def prepare_data_folder(data: Path) -> None:
    """Create the folder if it doesn't exist, readable by this user only. Raises Unwritable."""
    _create(data)
    check_writable(data)


def prepare_logs_folder(data: Path) -> Path:
    """Return the folder of the processes' logs, which is created if it doesn't exist. Raises Unwritable."""
    logs = data / "logs"
    _create(logs)
    return logs


def _create(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"{folder}: {os.strerror(error.errno or 0)}.") from error


def check_writable(data: Path) -> None:
    """Raise Unwritable if no file can be written to the folder.

    Writes a temporary file, because permissions alone don't reveal a full or read-only disk.
    """
    try:
        with tempfile.TemporaryFile(dir=data) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error
