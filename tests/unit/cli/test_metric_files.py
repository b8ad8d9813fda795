"""Metric files: preallocated, one set per role, and reused after a crash."""

import signal
import subprocess
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from notifier.cli.supervisor.shared_metric_files import METRIC_FILE_BYTES, METRIC_FILE_KINDS
from tests.repo.repository_files import ROOT

COUNTS_EVERYTHING = """
import sys
from pathlib import Path
from prometheus_client import Counter, Gauge, Histogram
from notifier.cli.supervisor.shared_metric_files import share_metrics
from notifier.metrics import Metrics
share_metrics(Path(sys.argv[1]), "p0")
COUNTS = {Counter: Counter.inc, Gauge: lambda gauge: gauge.set(1), Histogram: lambda histogram: histogram.observe(1)}
for metric in vars(Metrics()).values():
    for number in range(8):
        names = [f"a-label-of-some-length-{number}" for _ in getattr(metric, "_labelnames", ())]
        if count := COUNTS.get(type(metric)):
            count(metric.labels(*names) if names else metric)
"""

COUNTS_AND_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from notifier.cli.supervisor.shared_metric_files import share_metrics
from notifier.metrics import Metrics
share_metrics(Path(sys.argv[1]), sys.argv[2])
metrics = Metrics()
metrics.events.labels("accepted").inc(10)
metrics.delivery_latency.labels("p0").observe(1)
metrics.lag.labels("mentions").set(3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_every_series_fits_into_preallocated_files(tmp_path: Path) -> None:
    done = run_code(COUNTS_EVERYTHING, str(tmp_path))
    assert done.returncode == 0, done.stderr
    files = {file.name: file.stat() for file in tmp_path.iterdir()}
    assert set(files) == {f"{kind}_p0.db" for kind in METRIC_FILE_KINDS}
    for stat in files.values():
        assert stat.st_size == METRIC_FILE_BYTES
        assert stat.st_blocks * 512 >= METRIC_FILE_BYTES


def test_replacement_of_killed_process_continues_its_counters(tmp_path: Path) -> None:
    for round in range(1, 5):
        for role in ("p0", "p1"):
            assert run_code(COUNTS_AND_IS_KILLED, str(tmp_path), role).returncode == -signal.SIGKILL
        assert len(list(tmp_path.iterdir())) == 2 * len(METRIC_FILE_KINDS)
        assert total(tmp_path, "notifier_events_total", status="accepted") == 2 * 10 * round
        assert total(tmp_path, "notifier_delivery_seconds_count", tier="p0") == 2 * round
        assert total(tmp_path, "notifier_lag_records", stream="mentions") == 3


OPENS_STREAMS_AND_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from notifier.cli.supervisor.shared_metric_files import share_metrics
share_metrics(Path(sys.argv[1]), sys.argv[2])
from tests.http.live_stream_client import run_live
async def play(studio):
    for user in ("u1", "u2", "u3")[: int(sys.argv[3])]:
        await studio.listen(user)
    os.kill(os.getpid(), signal.SIGKILL)
run_live(play)
"""


def test_open_streams_are_summed_and_start_at_zero_per_process(tmp_path: Path) -> None:
    for role, streams in (("api", "2"), ("api-2", "3")):
        assert run_code(OPENS_STREAMS_AND_IS_KILLED, str(tmp_path), role, streams).returncode == -signal.SIGKILL
    assert total(tmp_path, "notifier_streams") == 5
    assert run_code(OPENS_STREAMS_AND_IS_KILLED, str(tmp_path), "api", "0").returncode == -signal.SIGKILL
    assert total(tmp_path, "notifier_streams") == 3


def run_code(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)


def total(folder: Path, name: str, **labels: str) -> float | None:
    """Return the value that /metrics reports."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call] # the library's constructor is untyped
    return registry.get_sample_value(name, labels)
