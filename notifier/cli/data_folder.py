"""Creates the data folder, and checks that it is writable."""

import os
import tempfile
from pathlib import Path

from notifier.domain.errors import Unwritable


def prepare_data_folder(data: Path) -> None:
    """Create the folder if it doesn't exist, readable by this user only. Raises Unwritable."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error
    check_writable(data)


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
