"""`notifier audience` and `preview` agree with the loaded fixture."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from click.testing import Result

from notifier import topics
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import SqliteRetractions
from notifier.cli.commands.audience import freshness_json
from notifier.cli.opened_stores import open_stores
from notifier.config import Settings
from notifier.devkit.fixture.world import World
from notifier.domain.audience.activity import ActiveSetFreshness
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import UserId
from notifier.flow.operations.overview import MAX_COUNTED_RECORDS, AudienceFreshness
from notifier.ports.event_log_and_dead_letters import Record
from tests.cli.conftest import Notifier
from tests.cli.in_process_delivery import deliver_mention, sequence
from tests.support.fakes.clock_and_nonces import START


def test_audience_counts_match_fixture(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--seed", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    report = json.loads(notifier("audience", "@nova", "--json", "--data", str(folder)).stdout)
    world = World(universe=4_000, followers=2_000, celebrities=2, seed=1)
    followers = world.follower_count(0)
    assert (report["followers"], report["planned_followers"], report["shards"]) == (followers, followers, 1)
    assert sum(tier["people"] for tier in report["tiers"]) + sum(report["suppressed"].values()) == followers
    text = notifier("audience", "nova", "--data", str(folder)).stdout
    assert text.startswith("@nova is in the standard lane, with 2,000 followers (shards: 1).")
    assert [line.split()[0] for line in text.splitlines()[3:8]] == ["p0", "p1", "p2", "dormant", "muted"]


def test_audience_of_account_without_followers_is_one_sentence(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    text = notifier("audience", "u7", "--data", str(folder)).stdout
    assert text.splitlines() == [
        "@u7 is in the standard lane, with 0 followers (shards: 0).",
        "",
        "Tiers use the last activity snapshot: no roll-up is recorded.",
        "All accepted changes of follows, accounts and activity are counted.",
    ]


def test_audience_reports_accepted_but_uncounted_events(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "200", "--universe", "400", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    with open_stores(Settings(data=folder)) as stores:
        log = stores.ports.log
        log.append([Record(stream=topics.FOLLOWS, key="nova", value=b"")] * MAX_COUNTED_RECORDS)
        log.append([Record(stream=topics.USERS, key="nova", value=b"")] * 2)
    fresh = json.loads(notifier("audience", "nova", "--json", "--data", str(folder)).stdout)["fresh"]
    assert fresh == {
        "activity": "snapshot",
        "rolled_up_at": None,
        "unprocessed_records": {"follows": MAX_COUNTED_RECORDS, "users": 2, "activity": 0},
    }
    assert json.dumps(
        freshness_json(
            AudienceFreshness(activity=ActiveSetFreshness.CURRENT, rolled_up_at=START, unprocessed_records={})
        )
    ).count(START.isoformat())
    last = notifier("audience", "nova", "--data", str(folder)).stdout.splitlines()[-1]
    assert last == "Accepted but not counted yet: 1,000 or more in follows, 2 in users."


def test_audience_verify_finds_and_repairs_damaged_bitmap(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "2000", "--universe", "4000", "--celebrities", "2")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    intact = notifier("audience", "verify", "@nova", "--data", str(folder))
    assert (intact.exit_code, intact.stdout.splitlines()[-1]) == (0, "Bitmaps, counts and rows agree.")
    with closing(sqlite3.connect(folder / "core.db")) as core, core:
        damage = "UPDATE member_sets SET blob = zeroblob(20) WHERE owner = 'mention:nova' AND kind = 'followers'"
        assert core.execute(damage).rowcount == 1
    result = notifier("audience", "verify", "@nova", "--repair", "--json", "--data", str(folder))
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["wrong_shards"], report["missing"], report["unreadable"], report["repairs_requested"]) == (
        [0],
        2_000,
        1,
        1,
    )
    sequence(folder)
    assert notifier("audience", "verify", "@nova", "--sample", "100", "--data", str(folder)).exit_code == 0


def test_audience_verify_rejects_unknown_account(folder: Path, notifier: Notifier) -> None:
    assert notifier("audience", "verify", "nobody", "--data", str(folder)).exit_code == 2


def test_preview_matches_next_mention(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    preview = json.loads(notifier("preview", "@nova", "--json", "--data", str(folder)).stdout)
    assert (preview["burst"], preview["refusal"], preview["followers"]) == ("mention:nova#1", None, 900)
    assert notifier("dump", "bursts", "--ndjson", "--data", str(folder)).stdout == ""
    deliver_mention(folder, "nova")
    dumped = notifier("dump", "snapshots", "--ndjson", "--burst", "mention:nova#1", "--data", str(folder)).stdout
    [snapshot] = [json.loads(line) for line in dumped.splitlines()]
    assert {tier: preview["tiers"][tier]["people"] for tier in ("p0", "p1", "p2")} == {
        tier: snapshot[tier] for tier in ("p0", "p1", "p2")
    }
    assert (preview["dormant"], preview["suppressed"]) == (snapshot["dormant"], snapshot["suppressed"])
    rows = notifier("dump", "inbox", "--ndjson", "--burst", "mention:nova#1", "--data", str(folder)).stdout
    assert len(rows.splitlines()) == sum(counts["rows"] for counts in preview["tiers"].values())


def test_preview_reports_retracted_tweet(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "900", "--universe", "1800", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    now, ada = SystemClock().now(), UserId("ada")
    files = Files.at(folder)
    SqliteRetractions(files.core).write(
        [Retraction(id=EventId("x", "d1"), cause=RetractionCause.DELETE, author=ada, tweet="t1", at=now)]
    )
    files.close()

    def preview(*options: str) -> Result:
        return notifier("preview", "@nova", *options, "--data", str(folder))

    assert preview("--author", "ada", "--tweet", "t1").stdout.endswith("no user except perhaps @nova: retracted.\n")
    report = json.loads(preview("--author", "ada", "--tweet", "t1", "--json").stdout)
    assert (report["refusal"], report["burst"], report["tiers"]) == ("retracted", None, {})
    for unaffected in (("--author", "ada", "--tweet", "t2"), ("--author", "bob", "--tweet", "t1"), ("--author", "ada")):
        assert json.loads(preview(*unaffected, "--json").stdout)["refusal"] is None
    for invalid in (("--tweet", "t1"), ("--author", "ada", "--tweet", ""), ("--author", "ada", "--tweet", "x" * 257)):
        assert preview(*invalid).exit_code == 2


def test_audience_shows_lane_of_next_mention(folder: Path, notifier: Notifier) -> None:
    """Between the two thresholds of the hysteresis this is the lane of the last burst."""
    options = ("--followers", "1000", "--universe", "2000", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    between: dict[str, str | None] = {"NOTIFIER_THRESHOLD": "1050"}

    def lanes() -> list[str]:
        commands = ("audience", "preview")
        return [
            json.loads(notifier(command, "@nova", "--json", "--data", str(folder), env=between).stdout)["lane"]
            for command in commands
        ]

    assert lanes() == ["standard", "standard"]
    deliver_mention(folder, "nova")  # with a threshold of 1,000
    assert lanes() == ["celebrity", "celebrity"]


def test_preview_prints_table(folder: Path, notifier: Notifier) -> None:
    options = ("--followers", "2000", "--universe", "4000", "--celebrities", "1")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    text = notifier("preview", "nova", "--data", str(folder)).stdout.splitlines()
    assert text[0].startswith("A mention of @nova would open mention:nova#1, in the standard lane")
    assert [line.split()[0] for line in text[2:6]] == ["users", "p0", "p1", "p2"]
    assert notifier("preview", "nova", "--protected", "--data", str(folder)).exit_code == 2
    assert notifier("preview", "nobody", "--data", str(folder)).exit_code == 2
