"""An audience on real engines: imported in two lives, previewed, mentioned to; and what was taken back of it."""

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
from notifier.consumer_loop import Pump, pump
from notifier.devkit.engines.fleet import EngineRecord
from notifier.domain.ids import Kind
from notifier.domain.upstream.validation import DELETED_TYPE, EVENT_TYPE, PROTECTED_TYPE
from notifier.flow.intake.gateway import IntakeStatus
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.profiles.profile import Profile
from notifier.wiring.delivery import build_slice_worker
from notifier.wiring.system import System, build_system
from tests.services.own import own
from tests.services.waiting import until
from tests.support.example_event import accept

pytestmark = pytest.mark.timeout(400)

DATABASE = 14
FANS = 20_000
WAIT = timedelta(milliseconds=100)


@dataclass
class Place:
    """A service without processes: verbs as people type them, and the stages that they leave work to."""

    data: Path
    profile: Profile
    pumps: dict[str, Pump] = field(default_factory=dict)

    def verb(self, *words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(main, [*words, "--json", *self.where], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    @property
    def where(self) -> tuple[str, ...]:
        return ("--profile", "cluster", "--data", str(self.data))

    def system(self, owner: str) -> System:
        settings = Settings(collapse=timedelta(0))
        return build_system(ports=self.profile.ports(), settings=settings, metrics=Metrics(), owner=owner)

    def say(self, kind: str, **data: object) -> None:
        """Accepted by the gateway when it returns."""
        event = {"specversion": "1.0", "type": kind, "source": "tests", "id": uuid4().hex, "data": data}
        event |= {"time": self.profile.ports().clock.now().isoformat()}
        receipt = accept(self.system("gateway"), event)
        assert receipt.answer is IntakeStatus.ACCEPTED

    def mention(self, author: str, tweet: str) -> None:
        """All rows of it stand when it returns."""
        self.say(EVENT_TYPE, tweet=tweet, author=author, mentions=["vera"])
        self.read(topics.MENTIONS, 1)
        self.read(topics.MENTIONS_STANDARD, 2)  # of her followers and her own
        self.deliver()

    def read(self, stream: str, n: int) -> None:
        if stream not in self.pumps:
            self.pumps[stream] = pump(self.system(stream), stream)
        left = n

        def done() -> bool:
            nonlocal left
            left -= self.pumps[stream].step(WAIT) if left else 0
            return left <= 0

        until(done)

    def deliver(self) -> None:
        work, ledger = build_slice_worker(self.system("worker")), self.profile.ports().ledger
        for account in ledger.read(ledger.open()).values():
            for piece in account.plan.slices():
                work(piece)

    def tweets(self, user: str) -> list[str]:
        """Return the tweets in the user's inbox. A partial page says that some may be missing: it is loaded again."""
        pages: list[Any] = []

        def is_whole() -> bool:
            pages.append(self.verb("tab", user))
            return not pages[-1]["partial"]

        until(is_whole)
        return [item["tweet"] for item in pages[-1]["items"]]


@pytest.fixture
def place(tmp_path: Path, fleet: Mapping[str, EngineRecord]) -> Iterator[Place]:
    data = own(tmp_path, fleet, [DATABASE] * 7)
    with closing(choose(Settings.read(data=data, profile="cluster"))) as profile:
        profile.migrate()
        profile.prepare()
        made = Place(data, profile)
        yield made
        for one in made.pumps.values():
            one.consumer.close()


def test_an_import_that_was_killed_reaches_everybody_and_what_is_taken_back_nobody(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "graph.csv.gz"
    pairs = [f"f{n},vera" for n in range(FANS)] + ["f1,ada", "vera,vera"]
    file.write_bytes(gzip.compress("\n".join(["follower,followed", *pairs, ""]).encode()))
    killed(place, file)
    told = place.verb("import", "followers", str(file), code=1)
    assert (told["follows"], told["rejected"]) == (FANS + 1, 1)
    assert [json.loads(line)["line"] for line in Path(told["rejects"]).read_text().splitlines()] == [FANS + 3]
    assert place.verb("audience", "@vera")["followers"] == FANS
    assert place.verb("audience", "verify", "@vera")["followers"] == FANS

    expected = {tier: one["people"] for tier, one in place.verb("preview", "@vera")["tiers"].items()}
    place.mention("ada", "t1")
    assert delivered(place) == expected == {"p0": 0, "p1": 0, "p2": FANS}
    assert [place.tweets(who) for who in ("f1", "f2", "ada")] == [["t1"], ["t1"], []]

    place.say(PROTECTED_TYPE, user="ada")
    assert [place.tweets(who) for who in ("f1", "f2")] == [["t1"], []]
    place.mention("bob", "t2")
    assert [place.tweets(who) for who in ("f1", "f2")] == [["t2", "t1"], ["t2"]]
    place.say(DELETED_TYPE, tweet="t2", author="bob")
    assert [place.tweets(who) for who in ("f1", "f2")] == [["t1"], []]
    place.say(DELETED_TYPE, tweet="t3", author="bob")
    place.mention("bob", "t3")
    assert [place.tweets(who) for who in ("f1", "f2")] == [["t1"], []]


def killed(place: Place, file: Path) -> None:
    """By SIGKILL, when it has kept some of what it read."""
    words = [sys.executable, "-m", "notifier", "import", "followers", str(file), "--at-once", "500", *place.where]
    with subprocess.Popen(words) as importing:
        until(lambda: importing.poll() is not None or any(place.data.glob("imports/*/*.run")))
        importing.kill()
        assert importing.wait() == -signal.SIGKILL


def delivered(place: Place) -> Mapping[str, int]:
    """By the ledger, of her followers' first burst."""
    [account] = [a for a in place.profile.ports().archive.accounts() if a.plan.burst.subject.kind is Kind.MENTION]
    found = {"p0": 0, "p1": 0, "p2": 0}
    for piece, standing in account.standings.items():
        if standing.ended and piece.step == "rows":
            found[piece.tier] += standing.ended.people
    return found
