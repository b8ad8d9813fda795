"""The data folder as a place on this machine: made, writable, with room left."""

import os
import tempfile
from pathlib import Path

from notifier.domain.errors import Unwritable


def prepare(data: Path) -> None:
    """Makes the folder if it isn't there, for nobody else to read. Raises Unwritable."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error
    probe(data)


def probe(data: Path) -> None:
    """Writes a file and takes it away again: permissions alone don't tell of a full or read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=data) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error
