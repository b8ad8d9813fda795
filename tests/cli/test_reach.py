"""`notifier reach`: said by hand with who, why and when; and what is held is listed, let go and dropped."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier import topics
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.log.log import SqliteLog
from notifier.adapters.sqlite.stores.moderation import SqliteHolds
from notifier.adapters.sqlite.stores.retractions import SqliteRetractions
from notifier.adapters.system_clock import SystemClock
from notifier.codec import unpack
from notifier.domain.bursts.held_mention import HeldMention
from notifier.domain.bursts.mention import Arrival, Event, EventId
from notifier.domain.bursts.retraction import Retraction, RetractionCause
from notifier.domain.ids import UserId
from tests.cli.conftest import Notifier

FLOOD = ("--verdict", "hold", "--reason", "a flood", "--who", "grace")


@pytest.fixture(scope="module")
def data(small_world: Path, notifier: Notifier) -> Path:
    return small_world


@pytest.fixture
def held(data: Path) -> Iterable[list[str]]:
    """Three that wait, the oldest first, by @u1 and @u2; their ids."""
    files, clock = Files.at(data), SystemClock()
    now = clock.now()
    holds = [
        HeldMention.of(
            Event(
                id=EventId("tweets", f"{now.timestamp()}-{n}"),
                tweet=f"t{n}",
                author=UserId(author),
                mentioned=(UserId(of),),
                text=f"look @{of}\x1b[2J",
                protected=False,
                happened_at=now,
                accepted_at=now - timedelta(hours=3 - n),
            ),
            (UserId(of),),
        )
        for n, (author, of) in enumerate([("u1", "nova"), ("u1", "orion"), ("u2", "nova")])
    ]
    store = SqliteHolds(files.core, clock)
    store.put(holds)
    yield [hold.key for hold in holds]
    with files.core.write() as c:
        c.execute("DELETE FROM holds")
    files.close()


def sent(data: Path) -> Counter[str]:
    """Events that were let go, and that no router has taken."""
    files = Files.at(data)
    log = SqliteLog(files.log, SystemClock())
    found = [unpack(Arrival, one.record.value) for one in log.waiting(topics.MENTIONS, "router", 999)]
    log.close()
    files.close()
    return Counter(f"{one.author} of {' '.join(one.mentioned)}" for one in found if one.released)


class Reach:
    def __init__(self, notifier: Notifier, data: Path) -> None:
        self.notifier, self.data = notifier, data

    def __call__(self, *words: str) -> Any:
        done = self.notifier("reach", *words, "--json", "--data", str(self.data))
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    def refused(self, *words: str) -> str:
        done = self.notifier("reach", *words, "--data", str(self.data))
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        return done.output


@pytest.fixture
def reach(notifier: Notifier, data: Path) -> Reach:
    return Reach(notifier, data)


def test_what_is_said_is_shown_and_listed_until_it_is_taken_back(reach: Reach) -> None:
    said = reach("set", "@u7", *FLOOD)
    assert {**said, "at": ""} == {"account": "u7", "verdict": "hold", "reason": "a flood", "who": "grace", "at": ""}
    assert (reach("show", "u7"), reach("list")) == (said, [said])
    back = reach("set", "@u7", "--verdict", "all", "--reason", "they mended it", "--who", "ada")
    assert (reach("show", "@u7"), reach("list")) == (back, [])
    assert back["at"] > said["at"]


def test_a_word_that_lost_says_so_and_tells_which_one_stands(data: Path, notifier: Notifier) -> None:
    """Somebody speaks between this one's look at what stands and its word."""
    files = Files.at(data)
    with files.core.write() as c:
        c.execute(
            "CREATE TRIGGER meanwhile BEFORE INSERT ON reaches WHEN NEW.who = 'grace' BEGIN"
            " INSERT INTO reaches (user, verdict, reason, who, at)"
            " VALUES (NEW.user, 'row', 'a trickle', 'ada', NEW.at + 1); END"
        )
    try:
        done = notifier("reach", "set", "@u8", *FLOOD, "--json", "--data", str(data))
        shown = json.loads(notifier("reach", "show", "@u8", "--json", "--data", str(data)).stdout)
        assert (done.exit_code, json.loads(done.stdout)) == (1, shown)
        assert (shown["verdict"], shown["who"], shown["reason"]) == ("row", "ada", "a trickle")
        assert done.stderr == "What you said doesn't stand: ada has said this of @u8 meanwhile.\n"
    finally:
        with files.core.write() as c:
            c.execute("DROP TRIGGER meanwhile")
            c.execute("DELETE FROM reaches WHERE user = 'u8'")
        files.close()
    calm = notifier("reach", "set", "@u8", "--verdict", "all", "--reason", "they mended it", "--data", str(data))
    assert (calm.exit_code, calm.stderr) == (0, "")


def test_of_whom_nothing_was_said_the_mentions_carry_all_the_way(reach: Reach, notifier: Notifier, data: Path) -> None:
    assert reach("show", "@u9") == {"account": "u9", "verdict": "all", "reason": None, "who": None, "at": None}
    shown = notifier("reach", "show", "@u9", "--data", str(data)).output
    assert shown == "Nothing was said of @u9: the mentions carry all the way.\n"


def test_of_an_account_that_was_never_heard_of_it_is_said_on_purpose_alone(reach: Reach) -> None:
    assert "ghost" in reach.refused("set", "@ghost", *FLOOD)
    assert "ghost" in reach.refused("show", "@ghost")
    reach("set", "@ghost", "--unheard", *FLOOD)
    assert reach("show", "@ghost")["verdict"] == "hold"
    reach("set", "@ghost", "--verdict", "all", "--reason", "gone")


@pytest.mark.parametrize(
    "words",
    [
        ("set", "@u1", "--verdict", "hold", "--reason", " "),
        ("set", "@u1", "--verdict", "hold", "--reason", "x" * 501),
        ("set", "@u1", "--verdict", "hold"),
        ("set", "@u1", "--reason", "a flood"),
        ("set", "@u1", "--verdict", "mute", "--reason", "a flood"),
        ("set", "@", *FLOOD),
        ("set", "x" * 257, *FLOOD),
        ("set", "a\nb", "--unheard", *FLOOD),
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
def test_what_makes_no_sense_is_wrong_usage_and_changes_nothing(words: tuple[str, ...], reach: Reach) -> None:
    reach.refused(*words)
    assert reach("list") == []


def test_what_is_held_is_listed_oldest_first_and_by_whom_and_of_whom(held: list[str], reach: Reach) -> None:
    assert [one["id"] for one in reach("held")] == held
    assert [one["id"] for one in reach("held", "--limit", "1")] == held[:1]
    assert [one["id"] for one in reach("held", "--by", "@u1", "--of", "orion")] == [held[1]]
    first = reach("held", "--of", "@nova")[0]
    assert (first["by"], first["of"], first["source"]) == ("u1", ["nova"], "tweets")
    assert first["text"].startswith("look @nova")


def test_for_a_person_it_is_a_table_that_nobody_s_text_can_steer(
    held: list[str], notifier: Notifier, data: Path
) -> None:
    shown = notifier("reach", "held", "--data", str(data)).output.splitlines()
    assert [line.split()[0] for line in shown] == ["id", *(id[:8] for id in held)]
    assert "\x1b" not in "".join(shown)


def test_what_is_let_go_is_sent_again_and_waits_no_longer(held: list[str], reach: Reach, data: Path) -> None:
    before = sent(data)
    [gone] = reach("release", held[1][:6])
    assert gone["id"] == held[1]
    assert sent(data) - before == Counter(["u1 of orion"])
    assert [one["id"] for one in reach("held")] == [held[0], held[2]]
    assert held[1] in reach.refused("release", held[1])
    assert held[1] in reach.refused("release", held[0], held[1])
    assert [one["id"] for one in reach("held")] == [held[0], held[2]]


def test_nobody_reads_what_was_taken_back_while_it_waited(held: list[str], reach: Reach, data: Path) -> None:
    files = Files.at(data)
    now, by = SystemClock().now(), UserId("u1")
    SqliteRetractions(files.core).write(
        [
            Retraction(id=EventId("x", tweet), cause=RetractionCause.DELETE, author=by, tweet=tweet, at=now, sequence=1)
            for tweet in ("t0", "t1")
        ]
    )
    try:
        assert [bool(one["text"]) for one in reach("held")] == [False, False, True]
        shown = [*reach("release", held[0]), *reach("drop", *held[1:])]
        assert [bool(one["text"]) for one in shown] == [False, False, True]
    finally:
        with files.core.write() as c:
            c.execute("DELETE FROM retractions")
        files.close()


def test_all_of_one_account_s_are_let_go_together(held: list[str], reach: Reach, data: Path) -> None:
    before = sent(data)
    assert [one["id"] for one in reach("release", "--by", "@u1")] == held[:2]
    assert sent(data) - before == Counter(["u1 of nova", "u1 of orion"])
    assert [one["id"] for one in reach("held")] == held[2:]


def test_what_is_dropped_is_never_sent(held: list[str], reach: Reach, data: Path, notifier: Notifier) -> None:
    before = sent(data)
    assert notifier("reach", "drop", held[0], held[2], "--data", str(data)).output == "2 mentions are dropped.\n"
    assert [one["id"] for one in reach("held")] == [held[1]]
    reach.refused("release", held[0])
    assert sent(data) == before
