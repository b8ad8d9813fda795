"""The room for metrics is taken beforehand: no count ever falls into a hole of a mapped file."""

import os
import subprocess
import sys
from pathlib import Path

from notifier.cli.counters import KINDS, ROOM
from tests.repo.sources import ROOT

COUNTS_EVERYTHING = """
import os
from pathlib import Path
from prometheus_client import Counter, Gauge, Histogram
from notifier.cli.counters import reserve
from notifier.telemetry import Metrics
reserve(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]), os.getpid())
COUNTS = {Counter: Counter.inc, Gauge: lambda gauge: gauge.set(1), Histogram: lambda histogram: histogram.observe(1)}
for metric in vars(Metrics()).values():
    for number in range(8):
        names = [f"a-label-of-some-length-{number}" for _ in getattr(metric, "_labelnames", ())]
        if count := COUNTS.get(type(metric)):
            count(metric.labels(*names) if names else metric)
print(os.getpid())
"""


def test_a_process_with_every_series_stays_within_files_that_have_no_holes(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COUNTS_EVERYTHING],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files = {file.name: file.stat() for file in tmp_path.iterdir()}
    assert set(files) == {f"{kind}_{done.stdout.strip()}.db" for kind in KINDS}
    for stat in files.values():
        assert stat.st_size == ROOM
        assert stat.st_blocks * 512 >= ROOM
