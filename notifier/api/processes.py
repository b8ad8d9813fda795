"""The processes beside this one, as `notifier up` keeps them: which run, and how often each was replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

REPLACED = "notifier_roles_replaced_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    folder: Path
    """Each role leaves its process id in a file of its own here once it can work."""
    registry: CollectorRegistry

    def pids(self) -> Mapping[str, int]:
        """Empty where no `notifier up` runs on the folder."""
        try:
            return {
                file.name: int(file.read_text())
                for file in sorted(self.folder.iterdir())
                if not file.name.startswith(".")
            }
        except (OSError, ValueError):
            return {}

    def replaced(self) -> Mapping[str, int]:
        """By role, since `notifier up` began."""
        found: dict[str, int] = {}
        for metric in shared(self.registry).collect():
            for sample in metric.samples:
                if sample.name == REPLACED:
                    role = sample.labels["role"]
                    found[role] = found.get(role, 0) + int(sample.value)
        return found


def loading_file(data: Path) -> Path:
    """Says how many hundredths of its world a demo has loaded; there while it loads."""
    return data / "run" / "loading"


def loading(data: Path) -> int | None:
    try:
        return int(loading_file(data).read_text())
    except (OSError, ValueError):
        return None


def shared(own: CollectorRegistry) -> CollectorRegistry:
    """Of all processes where they share their metrics, which the library itself knows by PROMETHEUS_MULTIPROC_DIR."""
    together = CollectorRegistry()
    try:
        MultiProcessCollector(together)  # type: ignore[no-untyped-call] # the library's constructor is untyped
    except ValueError:
        return own
    return together
