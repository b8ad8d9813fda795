"""What the verbs print of a delivered burst: dumps with their keys, the tab, the ledger, the explanation."""

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier.adapters.sqlite import Files, SqliteLedger, SqliteOveralls
from notifier.cli.commands.explain.command import explanation
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.account_preferences import OverallWord
from notifier.domain.users.subject_preferences import Volume
from tests.cli.conftest import Notifier
from tests.cli.delivered import deliver
from tests.cli.reads import reads_of
from tests.support.fakes.clock import START
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import driven

BURST = "mention:nova#1"


@pytest.fixture
def delivered(folder: Path, notifier: Notifier) -> Path:
    """A world of 4,000 people, of whom 2,000 follow nova; u7 is mentioned beside her."""
    words = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--seed", "1", "--json")
    assert notifier("fixture", *words, "--data", str(folder)).exit_code == 0
    deliver(folder, "nova", "u7")
    return folder


def lines(notifier: Notifier, folder: Path, *words: str) -> list[dict[str, Any]]:
    done = notifier("dump", *words, "--ndjson", "--data", str(folder))
    assert done.exit_code == 0
    return [json.loads(line) for line in done.output.splitlines()]


def asked(notifier: Notifier, folder: Path, *words: str) -> dict[str, Any]:
    done = notifier(*words, "--json", "--data", str(folder))
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def people_of(row: dict[str, Any]) -> set[int]:
    if "members" in row:
        return set(row["members"])
    bits = int.from_bytes(bytes.fromhex(row["bitmap"]), "little")
    return {row["first"] + place for place in range(RANGE_MEMBERS) if bits >> place & 1}


def test_the_bursts_are_dumped_with_everything_they_know(delivered: Path, notifier: Notifier) -> None:
    found = {line["burst"]: line for line in lines(notifier, delivered, "bursts")}
    assert set(found) == {BURST, "self:nova#1", "self:u7#1", "mention:u7#1"}
    nova = found[BURST]
    assert (nova["subject"], nova["seq"], nova["lane"], nova["verdict"]) == ("mention:nova", 1, "celebrity", "all")
    assert (nova["count"], nova["mentioners"], nova["text"]) == (1, ["ada"], "hi")
    assert nova["opened_at"].endswith("Z")


def test_the_rows_are_the_tiers_of_the_seals(delivered: Path, notifier: Notifier) -> None:
    seals = lines(notifier, delivered, "seals", "--members", "--burst", BURST)
    rows = lines(notifier, delivered, "inbox", "--burst", BURST)
    for tier in ("p0", "p1", "p2"):
        bits = [(seal["shard"], int.from_bytes(bytes.fromhex(seal["members"][tier]), "little")) for seal in seals]
        sealed = {
            shard << 17 | place for shard, word in bits for place in range(word.bit_length()) if word >> place & 1
        }
        reached = [member for row in rows if row["tier"] == tier for member in people_of(row)]
        assert sorted(reached) == sorted(sealed)
        assert sum(seal[tier] for seal in seals) == len(sealed)
    assert sum(len(people_of(row)) for row in rows) > 0


def test_dumped_row_has_a_list_or_a_bitmap_of_its_range(delivered: Path, notifier: Notifier) -> None:
    rows = lines(notifier, delivered, "inbox", "--burst", BURST)
    assert {("members" in row, "bitmap" in row) for row in rows} == {(True, False), (False, True)}
    for row in rows:
        assert {member // RANGE_MEMBERS * RANGE_MEMBERS for member in people_of(row)} == {row["first"]}
        assert len(row.get("bitmap", "")) in (0, 2 * RANGE_BYTES)


def test_the_ledger_is_dumped_a_line_a_slice(delivered: Path, notifier: Notifier) -> None:
    found = lines(notifier, delivered, "ledger", "--burst", BURST)
    # Nobody takes alerts here, so no phones are planned.
    wanted = {("rows", tier, "done") for tier in ("p0", "p1", "p2")}
    assert {(line["step"], line["tier"], line["state"]) for line in found} == wanted
    assert all((line["first"], line["last"], line["attempts"]) == (0, 0, 0) for line in found)


def test_the_books_of_a_delivered_burst_balance(delivered: Path, notifier: Notifier) -> None:
    found = asked(notifier, delivered, "ledger", BURST)
    books = found["books"]
    assert books["balanced"]
    assert books["expected"] == books["delivered"] + books["suppressed"] > 0
    assert found["parked_by"] == []


def test_books_whose_seals_have_expired_have_nothing_to_check_against(delivered: Path, notifier: Notifier) -> None:
    aged(delivered, BurstKey.parse(BURST), by=KEPT_FOR)
    assert asked(notifier, delivered, "ledger", BURST)["books"]["balanced"] is None
    shown = notifier("ledger", BURST, "--data", str(delivered))
    assert shown.exit_code == 0
    assert "The seals have expired; nothing to check against." in shown.output
    assert "balance" not in shown.output


def aged(folder: Path, burst: BurstKey, *, by: timedelta) -> None:
    """The plan as it is when the burst is so old; its seals are gone."""
    files = Files.at(folder)
    ledger = SqliteLedger(files.core)
    plan = ledger.read([burst])[burst].plan
    ledger.close([burst])
    with files.core.write() as c:
        c.execute("DELETE FROM plans WHERE subject = ? AND seq = ?", (str(burst.subject), burst.seq))
    ledger.plan([replace(plan, opened_at=plan.opened_at - by)])
    for inbox in files.inboxes:
        with inbox.write() as c:
            c.execute("DELETE FROM seals")
    files.close()


def test_the_tab_shows_the_mentioned_their_own_item(delivered: Path, notifier: Notifier) -> None:
    found = asked(notifier, delivered, "tab", "u7")
    assert found["badge"] == {"count": len(found["items"]), "more": False}
    assert "self:u7#1" in [item["burst"] for item in found["items"]]
    for item in found["items"]:
        assert item["subject"] == item["burst"].partition("#")[0]
        assert item["seq"] == int(datetime.fromisoformat(item["opened_at"]).timestamp())
    text = notifier("tab", "u7", "--data", str(delivered)).output
    assert "ada mentioned you" in text


def test_an_explanation_agrees_with_the_tab_and_the_rows(delivered: Path, notifier: Notifier) -> None:
    rows = lines(notifier, delivered, "inbox", "--burst", BURST)
    reached = {member: row for row in rows for member in people_of(row)}
    member = min(reached)
    found = asked(notifier, delivered, "explain", BURST, f"u{member}")
    assert (found["visible"], found["rule"], found["member"]) == (True, None, member)
    assert found["seal"]["tier"] == reached[member]["tier"]
    row = {"range": member // RANGE_MEMBERS, "people": len(people_of(reached[member]))}
    assert found["row"] == row
    text = notifier("explain", BURST, f"u{member}", "--data", str(delivered)).output
    assert re.search(rf"row +one for {row['people']:,} people of range {row['range']}$", text, re.MULTILINE)
    assert BURST in [item["burst"] for item in asked(notifier, delivered, "tab", f"u{member}")["items"]]


def test_who_is_not_in_the_audience_is_told_by_which_rule(delivered: Path, notifier: Notifier) -> None:
    found = asked(notifier, delivered, "explain", "self:nova#1", "u7")
    assert (found["visible"], found["rule"], found["row"]) == (False, "not_followed", None)
    text = notifier("explain", "self:nova#1", "u7", "--data", str(delivered)).output
    assert text.startswith("self:nova#1 and u7: The person doesn't follow the subject")
    assert re.search(r"row +none$", text, re.MULTILINE)


def test_what_a_digest_tells_of_is_explained_by_it(delivered: Path, notifier: Notifier) -> None:
    [row] = lines(notifier, delivered, "inbox", "--burst", BURST)[:1]
    member, files = min(people_of(row)), Files.at(delivered)
    SqliteOveralls(files.core).write(
        [OverallWord(member=Member(member), at=START, volume=Volume.DIGEST, zone="Asia/Tokyo", digest_hour=0)]
    )
    files.close()
    found = asked(notifier, delivered, "explain", BURST, f"u{member}")
    assert (found["visible"], found["rule"]) == (False, "volume")
    due = datetime.fromisoformat(found["digest"]["due_at"])
    assert (due.hour, due > datetime.fromisoformat(found["opened_at"])) == (15, True)
    assert found["digest"]["item"] == f"digest:u{member}#{due + timedelta(hours=9):%Y%m%d}"
    text = notifier("explain", BURST, f"u{member}", "--data", str(delivered)).output
    assert re.search(f"told by +{found['digest']['item']}, due at", text)
    to_come = asked(notifier, delivered, "explain", found["digest"]["item"], f"u{member}")
    assert (to_come["rule"], to_come["due_at"], to_come["digest"]) == ("to_come", found["digest"]["due_at"], None)


def test_rows_that_are_still_to_come_change_no_tab(folder: Path, notifier: Notifier) -> None:
    assert notifier("fixture", "--followers", "50", "--universe", "50", "--json", "--data", str(folder)).exit_code == 0
    deliver(folder, "nova", of=lambda piece: False)
    found = asked(notifier, folder, "explain", BURST, "u1")
    assert (found["visible"], found["row"], found["seal"]) == (True, None, None)
    assert [item["burst"] for item in asked(notifier, folder, "tab", "u1")["items"]] == [BURST]
    assert asked(notifier, folder, "ledger", BURST)["books"]["expected"] == 0


def test_a_token_is_for_a_person_who_exists(delivered: Path, notifier: Notifier) -> None:
    assert notifier("token", "u7", "--data", str(delivered)).output.count(".") == 2
    assert notifier("token", "nobody", "--data", str(delivered)).exit_code == 2


def test_there_are_no_dead_letters_and_it_says_so(delivered: Path, notifier: Notifier) -> None:
    assert notifier("deadletters", "--data", str(delivered)).output == "There are no dead letters.\n"
    assert notifier("deadletters", "--json", "--data", str(delivered)).output == "[]\n"


def test_a_burst_that_is_served_by_pull_alone_is_explained() -> None:
    stage = Stage()
    for _ in range(7):
        stage.mention("nova", author="eve", protected=True)
    *_, before, last = stage.bursts()
    found = driven(explanation(stage.ports, lambda: reads_of(stage), last, UserId("kim")))
    assert found["digest"] is None
    assert (found["visible"], found["slices"], found["row"]) == (True, [], None)
    assert found["note"] == "Served by pull: the budget of fan-outs was spent."
    assert driven(explanation(stage.ports, lambda: reads_of(stage), before, UserId("kim")))["note"] is None
