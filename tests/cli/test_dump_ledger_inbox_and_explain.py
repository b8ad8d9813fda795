"""CLI output about a delivered burst: dumps, inbox, ledger and explanation."""

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from notifier.adapters.sqlite import Files, SqliteAccountPreferences, SqliteLedger
from notifier.cli.commands.explain.command import explanation
from notifier.domain.audience.bitmap import SHARD_MEMBERS
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS
from notifier.domain.audience.snapshot import SNAPSHOT_KEPT_FOR
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.account_preferences import AccountPreferencesChange
from notifier.domain.users.subject_preferences import Volume
from tests.cli.conftest import Notifier
from tests.cli.in_memory_read_ports import reads_of
from tests.cli.in_process_delivery import deliver_mention
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_system import Stage
from tests.support.simulator.inbox_visits import run_sync

BURST = "mention:nova#1"


@pytest.fixture
def delivered(folder: Path, notifier: Notifier) -> Path:
    """A world of 4,000 users; 2,000 follow nova. The delivered mention names nova and u7."""
    options = ("--followers", "2000", "--universe", "4000", "--celebrities", "2", "--seed", "1", "--json")
    assert notifier("fixture", *options, "--data", str(folder)).exit_code == 0
    deliver_mention(folder, "nova", "u7")
    return folder


def dump_lines(notifier: Notifier, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    result = notifier("dump", *arguments, "--ndjson", "--data", str(folder))
    assert result.exit_code == 0
    return [json.loads(line) for line in result.output.splitlines()]


def run_json(notifier: Notifier, folder: Path, *arguments: str) -> dict[str, Any]:
    result = notifier(*arguments, "--json", "--data", str(folder))
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


def members_of(row: dict[str, Any]) -> set[int]:
    if "members" in row:
        return set(row["members"])
    bits = int.from_bytes(bytes.fromhex(row["bitmap"]), "little")
    return {row["first"] + bit for bit in range(RANGE_MEMBERS) if bits >> bit & 1}


def test_dumped_bursts_have_all_fields(delivered: Path, notifier: Notifier) -> None:
    by_key = {line["burst"]: line for line in dump_lines(notifier, delivered, "bursts")}
    assert set(by_key) == {BURST, "self:nova#1", "self:u7#1", "mention:u7#1"}
    nova = by_key[BURST]
    assert (nova["subject"], nova["seq"], nova["lane"], nova["verdict"]) == ("mention:nova", 1, "celebrity", "all")
    assert (nova["count"], nova["mentioners"], nova["text"]) == (1, ["ada"], "hi")
    assert nova["opened_at"].endswith("Z")


def test_rows_match_tiers_of_snapshots(delivered: Path, notifier: Notifier) -> None:
    snapshots = dump_lines(notifier, delivered, "snapshots", "--members", "--burst", BURST)
    rows = dump_lines(notifier, delivered, "inbox", "--burst", BURST)
    for tier in ("p0", "p1", "p2"):
        bits = [
            (snapshot["shard"], int.from_bytes(bytes.fromhex(snapshot["members"][tier]), "little"))
            for snapshot in snapshots
        ]
        expected = {
            shard * SHARD_MEMBERS + bit
            for shard, bitmap in bits
            for bit in range(bitmap.bit_length())
            if bitmap >> bit & 1
        }
        members = [member for row in rows if row["tier"] == tier for member in members_of(row)]
        assert sorted(members) == sorted(expected)
        assert sum(snapshot[tier] for snapshot in snapshots) == len(expected)
    assert sum(len(members_of(row)) for row in rows) > 0


def test_dumped_row_has_list_or_bitmap_of_its_range(delivered: Path, notifier: Notifier) -> None:
    rows = dump_lines(notifier, delivered, "inbox", "--burst", BURST)
    assert {("members" in row, "bitmap" in row) for row in rows} == {(True, False), (False, True)}
    for row in rows:
        assert {member // RANGE_MEMBERS * RANGE_MEMBERS for member in members_of(row)} == {row["first"]}
        assert len(row.get("bitmap", "")) in (0, 2 * RANGE_BYTES)


def test_ledger_dump_has_one_line_per_slice(delivered: Path, notifier: Notifier) -> None:
    slices = dump_lines(notifier, delivered, "ledger", "--burst", BURST)
    # No push provider is configured here, so no push slices are planned.
    expected = {("rows", tier, "done") for tier in ("p0", "p1", "p2")}
    assert {(line["step"], line["tier"], line["state"]) for line in slices} == expected
    assert all((line["first"], line["last"], line["attempts"]) == (0, 0, 0) for line in slices)


def test_recipients_of_delivered_burst_balance(delivered: Path, notifier: Notifier) -> None:
    ledger = run_json(notifier, delivered, "ledger", BURST)
    recipients = ledger["recipients"]
    assert recipients["balanced"]
    assert recipients["expected"] == recipients["delivered"] + recipients["suppressed"] > 0
    assert ledger["parked_by"] == []


def test_totals_are_unchecked_when_snapshots_have_expired(delivered: Path, notifier: Notifier) -> None:
    expire_snapshots(delivered, BurstKey.parse(BURST))
    assert run_json(notifier, delivered, "ledger", BURST)["recipients"]["balanced"] is None
    shown = notifier("ledger", BURST, "--data", str(delivered))
    assert shown.exit_code == 0
    assert "The audience snapshots have expired; the totals can't be checked." in shown.output
    assert "balance" not in shown.output


def expire_snapshots(folder: Path, burst: BurstKey) -> None:
    """Make the burst so old that its snapshots have expired."""
    files = Files.at(folder)
    ledger = SqliteLedger(files.core)
    plan = ledger.read([burst])[burst].plan
    ledger.unlist([burst])
    with files.core.write() as c:
        c.execute("DELETE FROM plans WHERE subject = ? AND seq = ?", (str(burst.subject), burst.seq))
    ledger.store_plans([replace(plan, opened_at=plan.opened_at - SNAPSHOT_KEPT_FOR)])
    for inbox in files.inboxes:
        with inbox.write() as c:
            c.execute("DELETE FROM audience_snapshots")
    files.close()


def test_inbox_of_mentioned_user_shows_own_item(delivered: Path, notifier: Notifier) -> None:
    inbox = run_json(notifier, delivered, "inbox", "u7")
    assert inbox["badge"] == {"count": len(inbox["items"]), "more": False}
    assert "self:u7#1" in [item["burst"] for item in inbox["items"]]
    for item in inbox["items"]:
        assert item["subject"] == item["burst"].partition("#")[0]
        assert item["seq"] == int(datetime.fromisoformat(item["opened_at"]).timestamp())
    text = notifier("inbox", "u7", "--data", str(delivered)).output
    assert "ada mentioned you" in text


def test_explanation_agrees_with_inbox_and_rows(delivered: Path, notifier: Notifier) -> None:
    rows = dump_lines(notifier, delivered, "inbox", "--burst", BURST)
    row_of = {member: row for row in rows for member in members_of(row)}
    member = min(row_of)
    explained = run_json(notifier, delivered, "explain", BURST, f"u{member}")
    assert (explained["visible"], explained["rule"], explained["member"]) == (True, None, member)
    assert explained["snapshot"]["tier"] == row_of[member]["tier"]
    row = {"range": member // RANGE_MEMBERS, "people": len(members_of(row_of[member]))}
    assert explained["row"] == row
    text = notifier("explain", BURST, f"u{member}", "--data", str(delivered)).output
    assert re.search(rf"row +one for {row['people']:,} users of range {row['range']}$", text, re.MULTILINE)
    assert BURST in [item["burst"] for item in run_json(notifier, delivered, "inbox", f"u{member}")["items"]]


def test_explain_names_rule_that_excludes_user(delivered: Path, notifier: Notifier) -> None:
    explained = run_json(notifier, delivered, "explain", "self:nova#1", "u7")
    assert (explained["visible"], explained["rule"], explained["row"]) == (False, "not_followed", None)
    text = notifier("explain", "self:nova#1", "u7", "--data", str(delivered)).output
    assert text.startswith("self:nova#1 and u7: The user doesn't follow the subject")
    assert re.search(r"row +none$", text, re.MULTILINE)


def test_explain_names_digest_that_contains_burst(delivered: Path, notifier: Notifier) -> None:
    [row] = dump_lines(notifier, delivered, "inbox", "--burst", BURST)[:1]
    member, files = min(members_of(row)), Files.at(delivered)
    SqliteAccountPreferences(files.core).write(
        [
            AccountPreferencesChange(
                member=Member(member), at=START, volume=Volume.DIGEST, zone="Asia/Tokyo", digest_hour=0
            )
        ]
    )
    files.close()
    explained = run_json(notifier, delivered, "explain", BURST, f"u{member}")
    assert (explained["visible"], explained["rule"]) == (False, "volume")
    due = datetime.fromisoformat(explained["digest"]["due_at"])
    assert (due.hour, due > datetime.fromisoformat(explained["opened_at"])) == (15, True)
    assert explained["digest"]["item"] == f"digest:u{member}#{due + timedelta(hours=9):%Y%m%d}"
    text = notifier("explain", BURST, f"u{member}", "--data", str(delivered)).output
    assert re.search(f"in digest +{explained['digest']['item']}, due at", text)
    pending = run_json(notifier, delivered, "explain", explained["digest"]["item"], f"u{member}")
    assert (pending["rule"], pending["due_at"], pending["digest"]) == ("not_due", explained["digest"]["due_at"], None)


def test_missing_rows_do_not_change_inbox(folder: Path, notifier: Notifier) -> None:
    assert notifier("fixture", "--followers", "50", "--universe", "50", "--json", "--data", str(folder)).exit_code == 0
    deliver_mention(folder, "nova", only=lambda slice_: False)
    explained = run_json(notifier, folder, "explain", BURST, "u1")
    assert (explained["visible"], explained["row"], explained["snapshot"]) == (True, None, None)
    assert [item["burst"] for item in run_json(notifier, folder, "inbox", "u1")["items"]] == [BURST]
    assert run_json(notifier, folder, "ledger", BURST)["recipients"]["expected"] == 0


def test_token_requires_existing_user(delivered: Path, notifier: Notifier) -> None:
    assert notifier("token", "u7", "--data", str(delivered)).output.count(".") == 2
    assert notifier("token", "nobody", "--data", str(delivered)).exit_code == 2


def test_empty_dead_letters_print_a_sentence(delivered: Path, notifier: Notifier) -> None:
    assert notifier("deadletters", "--data", str(delivered)).output == "There are no dead letters.\n"
    assert notifier("deadletters", "--json", "--data", str(delivered)).output == "[]\n"


def test_pull_only_burst_is_explained() -> None:
    stage = Stage()
    for _ in range(7):
        stage.mention("nova", author="eve", protected=True)
    *_, before, last = stage.bursts()
    explained = run_sync(explanation(stage.ports, lambda: reads_of(stage), last, UserId("kim")))
    assert explained["digest"] is None
    assert (explained["visible"], explained["slices"], explained["row"]) == (True, [], None)
    assert explained["note"] == "Served by the pull path: the fan-out budget was spent."
    assert run_sync(explanation(stage.ports, lambda: reads_of(stage), before, UserId("kim")))["note"] is None
