"""Pid files of the running processes, and the files of their shared metrics."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from notifier.config import set_in_environment
from notifier.domain.errors import DiskFull, Unwritable


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFiles:
    """Pid files: each process writes its id to a file once it can work. The file has the name of the process."""

    folder: Path

    def write(self, process_name: str, pid: int) -> None:
        """Write the pid file of a process. Raises Unwritable."""
        draft = self.folder / f".{process_name}.{pid}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(str(pid))
            draft.replace(self.folder / process_name)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise Unwritable(f"{self.folder}: {error.strerror}.") from error

    def written_at(self, process_name: str, pid: int) -> datetime | None:
        """Return when the process with this id wrote its pid file, or None if it did not."""
        if not self.is_written(process_name, pid):
            return None
        return datetime.fromtimestamp((self.folder / process_name).stat().st_mtime, UTC)

    def is_written(self, process_name: str, pid: int | None) -> bool:
        """Return whether the process with this id wrote the pid file.

        The file of an earlier process with the same name has another id.
        """
        try:
            return pid is not None and (self.folder / process_name).read_text() == str(pid)
        except OSError:
            return False


def pid_files_of(data: Path) -> PidFiles:
    return PidFiles(folder=data / "run" / "up")


# Shared metrics: files that the processes of one `notifier up` share, with preallocated space.

METRIC_FILE_KINDS = ("counter", "histogram", "gauge_mostrecent", "gauge_sum")
"""Kinds of metric files. `prometheus_client` names each file by its kind and the process name."""

METRIC_FILE_BYTES = 128 << 10
"""Size of each metric file. With eight series per metric, the fullest file is more than half full."""


def share_metrics(folder: Path, process_name: str) -> None:
    """Share the metrics of this process through files. Call it before creating the first metric. Raises DiskFull.

    The files belong to the process name, not to the process id: a replacement continues the counts of the dead process.
    No file is left behind by a dead process, and counters never decrease.
    """
    preallocate_metric_files(folder, process_name)
    set_in_environment("PROMETHEUS_MULTIPROC_DIR", str(folder))
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: process_name)  # type: ignore[no-untyped-call] # the library has no types


def preallocate_metric_files(folder: Path, process_name: str) -> None:
    """Preallocate the metric files of a process. Raises DiskFull.

    The library maps these files into memory. Those that it creates itself are sparse: on a full disk, the first count
    that falls into a hole would kill the process (SIGBUS). It uses an existing file with content as it is.
    """
    draft = folder / f".{process_name}"
    try:
        for kind in METRIC_FILE_KINDS:
            file = folder / f"{kind}_{process_name}.db"
            if not file.exists():
                # Rename the complete file: the next process with the name would map an incomplete one.
                draft.write_bytes(bytes(METRIC_FILE_BYTES))
                draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DiskFull(f"{folder}: {error.strerror}.") from error
