"""`notifier audience` agrees with the world that was loaded."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from click.testing import Result

from notifier import topics
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.retractions import SqliteRetractions
from notifier.adapters.system_clock import SystemClock
from notifier.cli.commands.audience import ages
from notifier.cli.context import opened
from notifier.config import Settings
from notifier.devkit.fixture.world import World
from notifier.domain.audience.activity import Published
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import UserId
from notifier.flow.operations.overview import COUNTED, Fresh
from notifier.ports.event_log import Record
from tests.cli.conftest import Notifier
from tests.cli.delivered import deliver, sequence
from tests.support.fakes.clock import START


def test_an_audience_is_counted_as_the_fixture_made_it(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--seed", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    found = json.loads(notifier("audience", "@nova", "--json", "--data", str(folder)).stdout)
    world = World(universe=4_000, followers=2_000, celebrities=2, seed=1)
    assert (found["followers"], found["followers_by_head"], found["shards"]) == (world.size(0), world.size(0), 1)
    assert sum(one["people"] for one in found["tiers"]) + sum(found["suppressed"].values()) == world.size(0)
    text = notifier("audience", "nova", "--data", str(folder)).stdout
    assert text.startswith("@nova is in the standard lane, with 2,000 followers (shards of them: 1).")
    assert [line.split()[0] for line in text.splitlines()[3:8]] == ["p0", "p1", "p2", "dormant", "muted"]


def test_of_whom_nobody_follows_one_sentence_is_said(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    text = notifier("audience", "u7", "--data", str(folder)).stdout
    assert text.splitlines() == [
        "@u7 is in the standard lane, with 0 followers (shards of them: 0).",
        "",
        "Tiers are made of the last snapshot of who is active: no roll-up is known of.",
        "Everything that was said of follows, accounts and activity is in it.",
    ]


def test_what_was_accepted_and_is_not_counted_yet_is_told(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    with opened(Settings(data=folder)) as place:
        log = place.ports.log
        log.append([Record(stream=topics.FOLLOWS, key="nova", value=b"")] * COUNTED)
        log.append([Record(stream=topics.USERS, key="nova", value=b"")] * 2)
    told = json.loads(notifier("audience", "nova", "--json", "--data", str(folder)).stdout)["fresh"]
    assert told == {
        "activity": "snapshot",
        "rolled_up_at": None,
        "waiting": {"follows": COUNTED, "users": 2, "activity": 0},
    }
    assert json.dumps(ages(Fresh(activity=Published.CURRENT, rolled_up_at=START, waiting={}))).count(START.isoformat())
    last = notifier("audience", "nova", "--data", str(folder)).stdout.splitlines()[-1]
    assert last == "Accepted and not counted yet: 1,000 or more of follows, 2 of users."


def test_what_was_loaded_is_verified_and_a_flipped_bit_is_found_and_made_right(
    folder: Path, notifier: Notifier
) -> None:
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "2")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    fine = notifier("audience", "verify", "@nova", "--data", str(folder))
    assert (fine.exit_code, fine.stdout.splitlines()[-1]) == (0, "Bitmaps, head and rows agree.")
    with closing(sqlite3.connect(folder / "core.db")) as core, core:
        changed = "UPDATE member_sets SET blob = zeroblob(20) WHERE owner = 'mention:nova' AND kind = 'followers'"
        assert core.execute(changed).rowcount == 1
    found = notifier("audience", "verify", "@nova", "--repair", "--json", "--data", str(folder))
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert (told["wrong_shards"], told["missing"], told["unreadable"], told["repairing"]) == ([0], 2_000, 1, 1)
    sequence(folder)
    assert notifier("audience", "verify", "@nova", "--sample", "100", "--data", str(folder)).exit_code == 0


def test_an_account_that_is_not_there_is_not_verified(folder: Path, notifier: Notifier) -> None:
    assert notifier("audience", "verify", "nobody", "--data", str(folder)).exit_code == 2


def test_a_preview_says_what_the_mention_right_behind_it_does(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    told = json.loads(notifier("preview", "@nova", "--json", "--data", str(folder)).stdout)
    assert (told["burst"], told["refusal"], told["followers"]) == ("mention:nova#1", None, 900)
    assert notifier("dump", "bursts", "--ndjson", "--data", str(folder)).stdout == ""
    deliver(folder, "nova")
    dumped = notifier("dump", "seals", "--ndjson", "--burst", "mention:nova#1", "--data", str(folder)).stdout
    [seal] = [json.loads(line) for line in dumped.splitlines()]
    assert {tier: told["tiers"][tier]["people"] for tier in ("p0", "p1", "p2")} == {
        tier: seal[tier] for tier in ("p0", "p1", "p2")
    }
    assert (told["dormant"], told["suppressed"]) == (seal["dormant"], seal["suppressed"])
    rows = notifier("dump", "inbox", "--ndjson", "--burst", "mention:nova#1", "--data", str(folder)).stdout
    assert len(rows.splitlines()) == sum(one["rows"] for one in told["tiers"].values())


def test_a_preview_says_what_of_a_tweet_was_taken_back(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    now, ada = SystemClock().now(), UserId("ada")
    files = Files.at(folder)
    SqliteRetractions(files.core).write(
        [Retraction(id=EventId("x", "d1"), cause=RetractionCause.DELETE, author=ada, tweet="t1", at=now)]
    )
    files.close()

    def told(*words: str) -> Result:
        return notifier("preview", "@nova", *words, "--data", str(folder))

    assert told("--author", "ada", "--tweet", "t1").stdout.endswith("nobody but perhaps @nova: retracted.\n")
    found = json.loads(told("--author", "ada", "--tweet", "t1", "--json").stdout)
    assert (found["refusal"], found["burst"], found["tiers"]) == ("retracted", None, {})
    for others in (("--author", "ada", "--tweet", "t2"), ("--author", "bob", "--tweet", "t1"), ("--author", "ada")):
        assert json.loads(told(*others, "--json").stdout)["refusal"] is None
    for wrong in (("--tweet", "t1"), ("--author", "ada", "--tweet", ""), ("--author", "ada", "--tweet", "x" * 257)):
        assert told(*wrong).exit_code == 2


def test_an_audience_is_shown_in_the_lane_that_its_next_mention_takes(folder: Path, notifier: Notifier) -> None:
    """Between the two lines of the hysteresis that is the last burst's."""
    words = ("--followers", "1000", "--universe", "2000", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    between: dict[str, str | None] = {"NOTIFIER_THRESHOLD": "1050"}

    def lanes() -> list[str]:
        verbs = ("audience", "preview")
        return [
            json.loads(notifier(v, "@nova", "--json", "--data", str(folder), env=between).stdout)["lane"] for v in verbs
        ]

    assert lanes() == ["standard", "standard"]
    deliver(folder, "nova")  # by a threshold of 1,000
    assert lanes() == ["celebrity", "celebrity"]


def test_a_preview_is_drawn_as_a_table(folder: Path, notifier: Notifier) -> None:
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "1")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    text = notifier("preview", "nova", "--data", str(folder)).stdout.splitlines()
    assert text[0].startswith("A mention of @nova would open mention:nova#1, in the standard lane")
    assert [line.split()[0] for line in text[2:6]] == ["people", "p0", "p1", "p2"]
    assert notifier("preview", "nova", "--protected", "--data", str(folder)).exit_code == 2
    assert notifier("preview", "nobody", "--data", str(folder)).exit_code == 2
