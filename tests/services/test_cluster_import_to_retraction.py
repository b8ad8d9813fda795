"""An audience on real engines: imported with a kill, previewed, delivered to, and retracted."""

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner

from notifier import topics
from notifier.cli import main
from notifier.config import Settings
from notifier.consumer_loop import StreamProcessor, build_stream_processor
from notifier.devkit.engines.fleet import EngineRecord
from notifier.domain.ids import Kind
from notifier.domain.upstream.validation import DELETED_TYPE, MENTIONED_TYPE, PROTECTED_TYPE
from notifier.flow.intake.gateway import IntakeStatus
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.profiles.profile import Profile
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.shared_parts import System, build_system
from tests.services.prepare_data_folder import prepare_folder
from tests.services.wait_for_engine_change import wait_until
from tests.support.example_event_and_acceptance import accept

pytestmark = [pytest.mark.prove, pytest.mark.timeout(400)]

DATABASE = 14
FOLLOWERS = 20_000
WAIT = timedelta(milliseconds=100)


@dataclass
class Service:
    """A service without processes: its commands, and the stages that they leave work to."""

    data: Path
    profile: Profile
    pumps: dict[str, StreamProcessor] = field(default_factory=dict)

    def command(self, *arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(main, [*arguments, "--json", *self.options], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--profile", "cluster", "--data", str(self.data))

    def system(self, owner: str) -> System:
        settings = Settings(collapse=timedelta(0))
        return build_system(ports=self.profile.ports(), settings=settings, metrics=Metrics(), owner=owner)

    def publish_event(self, kind: str, **data: object) -> None:
        """Accept an event through the gateway."""
        event = {"specversion": "1.0", "type": kind, "source": "tests", "id": uuid4().hex, "data": data}
        event |= {"time": self.profile.ports().clock.now().isoformat()}
        receipt = accept(self.system("gateway"), event)
        assert receipt.status is IntakeStatus.ACCEPTED

    def mention(self, author: str, tweet: str) -> None:
        """Publish a mention, and return when all of its rows are written."""
        self.publish_event(MENTIONED_TYPE, tweet=tweet, author=author, mentions=["vera"])
        self.read(topics.MENTIONS, 1)
        self.read(topics.MENTIONS_STANDARD, 2)  # one for her followers and one for her
        self.deliver()

    def read(self, stream: str, count: int) -> None:
        if stream not in self.pumps:
            self.pumps[stream] = build_stream_processor(self.system(stream), stream)
        remaining = count

        def all_read() -> bool:
            nonlocal remaining
            remaining -= self.pumps[stream].step(WAIT) if remaining else 0
            return remaining <= 0

        wait_until(all_read)

    def deliver(self) -> None:
        work, ledger = build_slice_worker(self.system("worker")), self.profile.ports().ledger
        for progress in ledger.read(ledger.unfinished_bursts()).values():
            for slice_ in progress.plan.slices():
                work(slice_)

    def tweets(self, user: str) -> list[str]:
        """Return the tweets in the user's inbox. A partial page may miss some, so it is loaded again."""
        pages: list[Any] = []

        def is_complete() -> bool:
            pages.append(self.command("inbox", user))
            return not pages[-1]["partial"]

        wait_until(is_complete)
        return [item["tweet"] for item in pages[-1]["items"]]


@pytest.fixture
def service(tmp_path: Path, fleet: Mapping[str, EngineRecord]) -> Iterator[Service]:
    data = prepare_folder(tmp_path, fleet, [DATABASE] * 7)
    with closing(choose(Settings.read(data=data, profile="cluster"))) as profile:
        profile.migrate()
        profile.ensure_schema()
        service = Service(data, profile)
        yield service
        for consumer in service.pumps.values():
            consumer.consumer.close()


def test_resumed_import_delivers_and_retractions_hide(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "graph.csv.gz"
    pairs = [f"f{n},vera" for n in range(FOLLOWERS)] + ["f1,ada", "vera,vera"]
    file.write_bytes(gzip.compress("\n".join(["follower,followed", *pairs, ""]).encode()))
    kill_import(service, file)
    report = service.command("import", "followers", str(file), code=1)
    assert (report["follows"], report["rejected"]) == (FOLLOWERS + 1, 1)
    assert [json.loads(line)["line"] for line in Path(report["rejects"]).read_text().splitlines()] == [FOLLOWERS + 3]
    assert service.command("audience", "@vera")["followers"] == FOLLOWERS
    assert service.command("audience", "verify", "@vera")["followers"] == FOLLOWERS

    expected = {tier: facts["people"] for tier, facts in service.command("preview", "@vera")["tiers"].items()}
    service.mention("ada", "t1")
    assert reached_by_tier(service) == expected == {"p0": 0, "p1": 0, "p2": FOLLOWERS}
    assert [service.tweets(user) for user in ("f1", "f2", "ada")] == [["t1"], ["t1"], []]

    service.publish_event(PROTECTED_TYPE, user="ada")
    assert [service.tweets(user) for user in ("f1", "f2")] == [["t1"], []]
    service.mention("bob", "t2")
    assert [service.tweets(user) for user in ("f1", "f2")] == [["t2", "t1"], ["t2"]]
    service.publish_event(DELETED_TYPE, tweet="t2", author="bob")
    assert [service.tweets(user) for user in ("f1", "f2")] == [["t1"], []]
    service.publish_event(DELETED_TYPE, tweet="t3", author="bob")
    service.mention("bob", "t3")
    assert [service.tweets(user) for user in ("f1", "f2")] == [["t1"], []]


def kill_import(service: Service, file: Path) -> None:
    """Kill the import with SIGKILL when it has stored some of its rows."""
    arguments = [
        sys.executable,
        "-m",
        "notifier",
        "import",
        "followers",
        str(file),
        "--at-once",
        "500",
        *service.options,
    ]
    with subprocess.Popen(arguments) as process:
        wait_until(lambda: process.poll() is not None or any(service.data.glob("imports/*/*.run")))
        process.kill()
        assert process.wait() == -signal.SIGKILL


def reached_by_tier(service: Service) -> Mapping[str, int]:
    """Return the members reached by the followers' first burst, according to the ledger."""
    [burst_progress] = [
        progress
        for progress in service.profile.ports().store_scan.burst_progress()
        if progress.plan.burst.subject.kind is Kind.MENTION
    ]
    members_reached = {"p0": 0, "p1": 0, "p2": 0}
    for slice_, slice_progress in burst_progress.slice_states.items():
        if slice_progress.final_entry and slice_.step == "rows":
            members_reached[slice_.tier] += slice_progress.final_entry.people
    return members_reached
