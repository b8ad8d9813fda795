"""Measures the warm page against a feed page of Stream-Framework, in the same rounds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.costs_and_figures import Figure
from benchmarks.inbox.cases import BARE_PAGE, FEED, WARM
from benchmarks.inbox.figures import ratio_to_peer, right_answers
from benchmarks.inbox.json_line_process import HelperProcess
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage, played
from benchmarks.peers.valkey import peers_valkey
from benchmarks.peers.virtualenvs import Environments

ENVIRONMENT = "stream_framework_page"
SCRIPT = Path(peers.__file__).parent / "inside" / "stream_framework_page.py"
ITEMS = 60
"""Items per feed."""
RATIO = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFrameworkPart:
    pythons: Environments

    def installed(self) -> bool:
        return self.pythons.installed(ENVIRONMENT)

    @staticmethod
    def names(profile: str) -> tuple[str, ...]:
        return (
            f"inbox_vs_stream_framework_ratio{{{profile}}}",
            f"inbox_right_answers{{{profile},stream_framework}}",
        )

    def run(self, shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
        tell("preparing Stream-Framework")
        python = self.pythons(ENVIRONMENT)
        stage = shared.warm_stage(tell)
        with _feeds(stage, python, folder):
            slices = played(stage, [BARE_PAGE, FEED, WARM], quick=quick, tell=tell)
        rate, right = self.names(shared.profile)
        return [
            ratio_to_peer(rate, slices[WARM.name], slices[FEED.name], RATIO),
            right_answers(right, [FEED, WARM], slices),
        ]


@contextmanager
def _feeds(stage: InboxStage, python: Path, folder: Path) -> Iterator[None]:
    """Run its server beside the product, with a feed for each warm user."""
    users = stage.population.group(WARM.requests).users
    with peers_valkey(folder) as valkey:
        # Without our paths: it must import only the packages of its own environment.
        arguments = ["-E", "-s", "-W", "ignore", str(SCRIPT), str(valkey.socket), str(users), str(ITEMS)]
        with HelperProcess(python=str(python), arguments=arguments, log=folder / "stream_framework.log") as server:
            stage.helpers[FEED.server] = server
            try:
                yield
            finally:
                del stage.helpers[FEED.server]
