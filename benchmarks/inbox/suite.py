"""All parts of `python -m benchmarks inbox` for one profile, most of them on one stage."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.fanout.suite import Parts
from benchmarks.inbox import crowd, latency, load, micro, news, pages
from benchmarks.inbox import first_opens as first
from benchmarks.inbox import redis_faults as redis_trouble
from benchmarks.inbox import store_faults as store_trouble
from benchmarks.inbox.shared_stage import SharedInboxStage
from benchmarks.inbox.stream_framework import StreamFrameworkPart
from benchmarks.peers.virtualenvs import Environments
from benchmarks.rounds import Figure

Names = Callable[[str], tuple[str, ...]]
"""The figures of a part, by profile."""


class StageMeasure(Protocol):
    def __call__(
        self, shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]
    ) -> list[Figure]: ...


ON_STAGE: dict[str, tuple[StageMeasure, Names]] = {
    "pages": (pages.run, pages.names),
    "news": (news.run, news.names),
    "latency": (latency.run, latency.names),
    "load": (load.run, load.names),
    "memory": (crowd.memory, crowd.memory_names),
    "herd": (crowd.herd, crowd.herd_names),
    "first": (first.run, first.names),
    "redis": (redis_trouble.run, redis_trouble.names),
    "store": (store_trouble.run, store_trouble.names),
}
"""What leaves the product as it was comes first; the last ones start its processes anew."""


@dataclass(frozen=True, slots=True)
class StagePart:
    """A part that needs the running product."""

    measure: StageMeasure
    shared: SharedInboxStage

    def __call__(self, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        try:
            return self.measure(self.shared, folder, quick=quick, tell=tell)
        except BaseException:
            self.shared.leave()  # the next part gets a stage of its own: nobody knows what this one left
            raise


def asks_for_peer(only: Collection[str]) -> bool:
    """Whether a part or a figure of Stream-Framework is asked for by name."""
    return any("stream_framework" in name for name in only)


@contextmanager
def parts(folder: Path, profile: str, environments: Environments, *, peer: bool) -> Iterator[Parts]:
    """Yield the parts. `peer` installs Stream-Framework; where it is installed already, its part is there anyway."""
    shared = SharedInboxStage(folder=folder, profile=profile)
    stage_parts = dict(ON_STAGE)
    feed = StreamFrameworkPart(pythons=environments)
    if peer or feed.installed():
        stage_parts["stream_framework"] = (feed.run, feed.names)
    alone: Parts = {"parts": (micro.run, micro.NAMES)} if profile == "embedded" else {}
    try:
        yield {
            **alone,
            **{name: (StagePart(measure, shared), names(profile)) for name, (measure, names) in stage_parts.items()},
        }
    finally:
        shared.leave()
