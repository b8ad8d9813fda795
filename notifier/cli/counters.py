"""The files in which the processes of one `notifier up` share their metrics, with their room taken beforehand."""

from pathlib import Path

from notifier.domain.errors import Full

KINDS = ("counter", "histogram", "gauge_mostrecent")
"""As the library names the files of `telemetry.Metrics`, each with the process id behind it."""

ROOM = 32 << 10
"""Bytes a file; a process with every series of every metric fills about a third of its largest."""


def reserve(folder: Path, pid: int) -> None:
    """To be called before the first metric is made. Raises Full.

    The library maps these files and makes them with holes; on a full disk the first count that falls into a hole would
    kill the process (SIGBUS). A file that is there, with bytes in it, is taken as it is.
    """
    files = [folder / f"{kind}_{pid}.db" for kind in KINDS]
    try:
        for file in files:
            file.write_bytes(bytes(ROOM))
    except OSError as error:
        # Half a file would be mapped by the next process of this id.
        for file in files:
            file.unlink(missing_ok=True)
        raise Full(f"{folder}: {error.strerror}.") from error
