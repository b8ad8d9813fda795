"""`notifier reach`: verdicts set by operators, and held mentions listed, released and dropped."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier import topics
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.moderation import SqliteHeldMentions
from notifier.adapters.sqlite.stores.retractions_and_text_erasure import SqliteRetractions
from notifier.codec import unpack
from notifier.domain.bursts.events_and_mentions import Event, EventId, LoggedEvent
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import UserId
from tests.cli.conftest import Notifier

FLOOD = ("--verdict", "hold", "--reason", "a flood", "--operator", "grace")


@pytest.fixture(scope="module")
def data(small_world: Path, notifier: Notifier) -> Path:
    return small_world


@pytest.fixture
def held(data: Path) -> Iterable[list[str]]:
    """Three held mentions by @u1 and @u2, oldest first; yields their ids."""
    files, clock = Files.at(data), SystemClock()
    now = clock.now()
    mentions = [
        HeldMention.from_event(
            Event(
                id=EventId("tweets", f"{now.timestamp()}-{n}"),
                tweet=f"t{n}",
                author=UserId(author),
                mentioned=(UserId(mentioned),),
                text=f"look @{mentioned}\x1b[2J",
                protected=False,
                happened_at=now,
                accepted_at=now - timedelta(hours=3 - n),
            ),
            (UserId(mentioned),),
        )
        for n, (author, mentioned) in enumerate([("u1", "nova"), ("u1", "orion"), ("u2", "nova")])
    ]
    store = SqliteHeldMentions(files.core, clock)
    store.put(mentions)
    yield [mention.key for mention in mentions]
    with files.core.write() as c:
        c.execute("DELETE FROM held_mentions")
    files.close()


def released(data: Path) -> Counter[str]:
    """Return the events that were released and that no router has read."""
    files = Files.at(data)
    log = SqliteLog(files.log, SystemClock())
    arrivals = [
        unpack(LoggedEvent, arrival.record.value) for arrival in log.read_uncommitted(topics.MENTIONS, "router", 999)
    ]
    log.close()
    files.close()
    return Counter(f"{arrival.author} of {' '.join(arrival.mentioned)}" for arrival in arrivals if arrival.released)


class Reach:
    def __init__(self, notifier: Notifier, data: Path) -> None:
        self.notifier, self.data = notifier, data

    def __call__(self, *arguments: str) -> Any:
        result = self.notifier("reach", *arguments, "--json", "--data", str(self.data))
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    def refused(self, *arguments: str) -> str:
        result = self.notifier("reach", *arguments, "--data", str(self.data))
        assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
        return result.output


@pytest.fixture
def reach(notifier: Notifier, data: Path) -> Reach:
    return Reach(notifier, data)


def test_verdict_is_shown_and_listed_until_it_is_reset(reach: Reach) -> None:
    verdict = reach("set", "@u7", *FLOOD)
    assert {**verdict, "at": ""} == {
        "account": "u7",
        "verdict": "hold",
        "reason": "a flood",
        "operator": "grace",
        "at": "",
    }
    assert (reach("show", "u7"), reach("list")) == (verdict, [verdict])
    reset = reach("set", "@u7", "--verdict", "all", "--reason", "they mended it", "--operator", "ada")
    assert (reach("show", "@u7"), reach("list")) == (reset, [])
    assert reset["at"] > verdict["at"]


def test_lost_concurrent_verdict_reports_the_winner(data: Path, notifier: Notifier) -> None:
    """Another operator writes between this command's read and its write."""
    files = Files.at(data)
    with files.core.write() as c:
        c.execute(
            "CREATE TRIGGER meanwhile BEFORE INSERT ON author_verdicts WHEN NEW.operator = 'grace' BEGIN"
            " INSERT INTO author_verdicts (user, verdict, reason, operator, at)"
            " VALUES (NEW.user, 'row', 'a trickle', 'ada', NEW.at + 1); END"
        )
    try:
        result = notifier("reach", "set", "@u8", *FLOOD, "--json", "--data", str(data))
        shown = json.loads(notifier("reach", "show", "@u8", "--json", "--data", str(data)).stdout)
        assert (result.exit_code, json.loads(result.stdout)) == (1, shown)
        assert (shown["verdict"], shown["operator"], shown["reason"]) == ("row", "ada", "a trickle")
        assert result.stderr == "Not applied: ada has set this verdict for @u8 at the same time.\n"
    finally:
        with files.core.write() as c:
            c.execute("DROP TRIGGER meanwhile")
            c.execute("DELETE FROM author_verdicts WHERE user = 'u8'")
        files.close()
    uncontended = notifier("reach", "set", "@u8", "--verdict", "all", "--reason", "they mended it", "--data", str(data))
    assert (uncontended.exit_code, uncontended.stderr) == (0, "")


def test_author_without_verdict_has_verdict_all(reach: Reach, notifier: Notifier, data: Path) -> None:
    assert reach("show", "@u9") == {"account": "u9", "verdict": "all", "reason": None, "operator": None, "at": None}
    shown = notifier("reach", "show", "@u9", "--data", str(data)).output
    assert shown == "@u9 has no verdict: its reach is not limited.\n"


def test_unknown_account_requires_explicit_option(reach: Reach) -> None:
    assert "ghost" in reach.refused("set", "@ghost", *FLOOD)
    assert "ghost" in reach.refused("show", "@ghost")
    reach("set", "@ghost", "--unknown-account", *FLOOD)
    assert reach("show", "@ghost")["verdict"] == "hold"
    reach("set", "@ghost", "--verdict", "all", "--reason", "gone")


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "@u1", "--verdict", "hold", "--reason", " "),
        ("set", "@u1", "--verdict", "hold", "--reason", "x" * 501),
        ("set", "@u1", "--verdict", "hold"),
        ("set", "@u1", "--reason", "a flood"),
        ("set", "@u1", "--verdict", "mute", "--reason", "a flood"),
        ("set", "@", *FLOOD),
        ("set", "x" * 257, *FLOOD),
        ("set", "a\nb", "--unknown-account", *FLOOD),
        ("set", *FLOOD),
        ("release",),
        ("release", "abc123", "--by", "@u1"),
        ("release", "abc"),
        ("release", "abcdef0123456789"),
        ("release", "--by", "@u9"),
        ("drop",),
        ("drop", "abcdef0123456789"),
        ("held", "--limit", "0"),
    ],
    ids=" ".join,
)
def test_invalid_arguments_are_usage_error_and_change_nothing(arguments: tuple[str, ...], reach: Reach) -> None:
    reach.refused(*arguments)
    assert reach("list") == []


def test_held_mentions_are_listed_oldest_first_with_filters(held: list[str], reach: Reach) -> None:
    assert [mention["id"] for mention in reach("held")] == held
    assert [mention["id"] for mention in reach("held", "--limit", "1")] == held[:1]
    assert [mention["id"] for mention in reach("held", "--by", "@u1", "--of", "orion")] == [held[1]]
    first_of_nova = reach("held", "--of", "@nova")[0]
    assert (first_of_nova["by"], first_of_nova["of"], first_of_nova["source"]) == ("u1", ["nova"], "tweets")
    assert first_of_nova["text"].startswith("look @nova")


def test_held_table_contains_no_control_characters(held: list[str], notifier: Notifier, data: Path) -> None:
    shown = notifier("reach", "held", "--data", str(data)).output.splitlines()
    assert [line.split()[0] for line in shown] == ["id", *(id[:8] for id in held)]
    assert "\x1b" not in "".join(shown)


def test_released_mention_is_published_and_no_longer_held(held: list[str], reach: Reach, data: Path) -> None:
    before = released(data)
    [released_mention] = reach("release", held[1][:6])
    assert released_mention["id"] == held[1]
    assert released(data) - before == Counter(["u1 of orion"])
    assert [mention["id"] for mention in reach("held")] == [held[0], held[2]]
    assert held[1] in reach.refused("release", held[1])
    assert held[1] in reach.refused("release", held[0], held[1])
    assert [mention["id"] for mention in reach("held")] == [held[0], held[2]]


def test_text_of_retracted_mention_is_not_shown(held: list[str], reach: Reach, data: Path) -> None:
    files = Files.at(data)
    now, by = SystemClock().now(), UserId("u1")
    SqliteRetractions(files.core).write(
        [
            Retraction(id=EventId("x", tweet), cause=RetractionCause.DELETE, author=by, tweet=tweet, at=now, sequence=1)
            for tweet in ("t0", "t1")
        ]
    )
    try:
        assert [bool(mention["text"]) for mention in reach("held")] == [False, False, True]
        shown = [*reach("release", held[0]), *reach("drop", *held[1:])]
        assert [bool(mention["text"]) for mention in shown] == [False, False, True]
    finally:
        with files.core.write() as c:
            c.execute("DELETE FROM retractions")
        files.close()


def test_all_mentions_of_one_author_are_released_together(held: list[str], reach: Reach, data: Path) -> None:
    before = released(data)
    assert [mention["id"] for mention in reach("release", "--by", "@u1")] == held[:2]
    assert released(data) - before == Counter(["u1 of nova", "u1 of orion"])
    assert [mention["id"] for mention in reach("held")] == held[2:]


def test_dropped_mention_is_never_published(held: list[str], reach: Reach, data: Path, notifier: Notifier) -> None:
    before = released(data)
    assert notifier("reach", "drop", held[0], held[2], "--data", str(data)).output == "2 mentions are dropped.\n"
    assert [mention["id"] for mention in reach("held")] == [held[1]]
    reach.refused("release", held[0])
    assert released(data) == before
