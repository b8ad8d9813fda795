"""All parts of `python -m benchmarks inbox` for a profile, most on one stage."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.suite import Parts
from benchmarks.inbox import (
    changed_pages,
    cold_herd_and_api_memory,
    latency_by_request_rate,
    opens_during_mentions,
    parts_of_an_open,
    slow_store,
    warm_opens,
)
from benchmarks.inbox import first_opens as first
from benchmarks.inbox import redis_faults as redis_trouble
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage
from benchmarks.inbox.stream_framework_comparison import StreamFrameworkPart
from benchmarks.peers.virtualenvs import Environments

Names = Callable[[str], tuple[str, ...]]
"""Returns the figures of a part for a profile."""


class StageMeasure(Protocol):
    def __call__(
        self, shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]
    ) -> list[Figure]: ...


ON_STAGE: dict[str, tuple[StageMeasure, Names]] = {
    "pages": (warm_opens.run, warm_opens.names),
    "news": (changed_pages.run, changed_pages.names),
    "latency": (latency_by_request_rate.run, latency_by_request_rate.names),
    "load": (opens_during_mentions.run, opens_during_mentions.names),
    "memory": (cold_herd_and_api_memory.memory, cold_herd_and_api_memory.memory_names),
    "herd": (cold_herd_and_api_memory.herd, cold_herd_and_api_memory.herd_names),
    "first": (first.run, first.names),
    "redis": (redis_trouble.run, redis_trouble.names),
    "store": (slow_store.run, slow_store.names),
}
"""Parts that leave the product unchanged come first. The last ones restart its processes."""


@dataclass(frozen=True, slots=True)
class StagePart:
    """A part that needs the running product."""

    measure: StageMeasure
    shared: SharedInboxStage

    def __call__(self, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        try:
            return self.measure(self.shared, folder, quick=quick, tell=tell)
        except BaseException:
            self.shared.leave()  # the next part gets a new stage, because this one's state is unknown
            raise


def asks_for_peer(only: Collection[str]) -> bool:
    """Return whether a part or figure of Stream-Framework is requested by name."""
    return any("stream_framework" in name for name in only)


@contextmanager
def parts(folder: Path, profile: str, environments: Environments, *, peer: bool) -> Iterator[Parts]:
    """Yield the parts. `peer` installs Stream-Framework. If it is installed already, its part is always included."""
    shared = SharedInboxStage(folder=folder, profile=profile)
    stage_parts = dict(ON_STAGE)
    feed = StreamFrameworkPart(pythons=environments)
    if peer or feed.installed():
        stage_parts["stream_framework"] = (feed.run, feed.names)
    alone: Parts = {"parts": (parts_of_an_open.run, parts_of_an_open.NAMES)} if profile == "embedded" else {}
    try:
        yield {
            **alone,
            **{name: (StagePart(measure, shared), names(profile)) for name, (measure, names) in stage_parts.items()},
        }
    finally:
        shared.leave()
