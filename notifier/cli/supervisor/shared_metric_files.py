"""Files through which the processes of one `notifier up` share their metrics."""

from pathlib import Path

from notifier.config import set_in_environment
from notifier.domain.errors import DiskFull

METRIC_FILE_KINDS = ("counter", "histogram", "gauge_mostrecent", "gauge_sum")
"""Kinds of metric files. `prometheus_client` names each file by its kind and the process name."""

METRIC_FILE_BYTES = 128 << 10
"""Initial size of a metric file. With eight series per metric, the fullest file is more than half full."""


def share_metrics(folder: Path, process_name: str) -> None:
    """Share the metrics of this process through files. Call it before creating the first metric. Raises DiskFull.

    Files are named after the process name, not the process id. A replacement thus continues the counts of the dead
    process.
    """
    preallocate_metric_files(folder, process_name)
    set_in_environment("PROMETHEUS_MULTIPROC_DIR", str(folder))
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: process_name)  # type: ignore[no-untyped-call] # the library has no types


def preallocate_metric_files(folder: Path, process_name: str) -> None:
    """Preallocate the metric files of a process. Raises DiskFull.

    The library maps the files into memory. Files that the library creates are sparse: on a full disk, the first count
    that falls into a hole would kill the process (SIGBUS). The library keeps an existing file.
    """
    draft = folder / f".{process_name}"
    try:
        for kind in METRIC_FILE_KINDS:
            file = folder / f"{kind}_{process_name}.db"
            if not file.exists():
                # Write a draft and rename it: otherwise a crash would leave an incomplete file to the next process.
                draft.write_bytes(bytes(METRIC_FILE_BYTES))
                draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DiskFull(f"{folder}: {error.strerror}.") from error
