"""Processes of `notifier up`, a demo's loading progress, and merged metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

REPLACEMENTS_METRIC = "notifier_roles_replaced_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProcesses:
    """The role processes of a running `notifier up`."""

    folder: Path
    """Folder in which each role, once it is ready, writes its process id to a file of its own."""
    registry: CollectorRegistry
    """Metrics of this process."""

    def pids(self) -> Mapping[str, int]:
        """Return the process ids by role. Empty if one can't be read."""
        try:
            return {
                file.name: int(file.read_text())
                for file in sorted(self.folder.iterdir())
                if not file.name.startswith(".")
            }
        except (OSError, ValueError):
            return {}

    def replacements(self) -> Mapping[str, int]:
        """Return how many times each role was replaced since `notifier up` started."""
        counts: dict[str, int] = {}
        for metric in merged_metrics(self.registry).collect():
            for sample in metric.samples:
                if sample.name == REPLACEMENTS_METRIC:
                    role = sample.labels["role"]
                    counts[role] = counts.get(role, 0) + int(sample.value)
        return counts


def loading_file(data: Path) -> Path:
    """Return the path of the file that holds a demo's loading progress in percent. It exists only while loading."""
    return data / "run" / "loading"


def loading_progress(data: Path) -> int | None:
    """Return a demo's loading progress in percent, or None if it is not loading."""
    try:
        return int(loading_file(data).read_text())
    except (OSError, ValueError):
        return None


def merged_metrics(own: CollectorRegistry) -> CollectorRegistry:
    """Return a registry with the metrics of all processes, or `own` if the processes share no metrics.

    The library finds the shared metrics through PROMETHEUS_MULTIPROC_DIR.
    """
    merged = CollectorRegistry()
    try:
        MultiProcessCollector(merged)  # type: ignore[no-untyped-call] # the library's constructor is untyped
    except ValueError:
        return own
    return merged
