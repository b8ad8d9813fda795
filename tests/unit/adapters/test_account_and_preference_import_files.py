"""Import of account and preference rows: accepted values, and rejections with reasons."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from notifier.adapters.imports.account_follow_preference_layouts import ACCOUNTS, PREFERENCES, VIPS
from notifier.adapters.imports.layout import Layout, ReportIgnored
from notifier.adapters.imports.sources_and_spilled_edges import form_of, open_source
from notifier.adapters.imports.text_files import MAX_IGNORED_NAMES
from notifier.domain.audience.account_flags import Flag
from notifier.domain.errors import BadImport
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.domain.users.quiet_hours import QuietHours
from notifier.domain.users.subject_preferences import NEVER, Volume

Rejections = list[tuple[int, str]]
ADA, NOVA = UserId("ada"), UserId("nova")


def read(file: Path, layout: Layout[Any], report_ignored: ReportIgnored = list) -> tuple[list[Any], Rejections]:
    rejected: Rejections = []

    def reject(line: int, reason: str) -> None:
        rejected.append((line, reason))

    with open_source(file, form_of(file.name), layout, reject, 3, report_ignored=report_ignored) as source:
        return [row for batch in source.rows_after(0) for row in batch.rows], rejected


def csv_of(folder: Path, text: str) -> Path:
    (folder / "rows.csv").write_text(text)
    return folder / "rows.csv"


def ndjson_of(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    (folder / "rows.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.ndjson"


def preferences(folder: Path, *rows: Mapping[str, object]) -> tuple[list[Any], Rejections]:
    return read(ndjson_of(folder, rows), PREFERENCES)


def test_flags_are_read_in_several_spellings(tmp_path: Path) -> None:
    text = "deleted,user,vip,verified\nno,u1,1,true\nFALSE,7,, yes \n,u3,,\n"
    assert read(csv_of(tmp_path, text), ACCOUNTS) == (
        [
            AccountRow(user=UserId("u1"), flags={Flag.VERIFIED: True, Flag.VIP: True, Flag.DELETED: False}),
            AccountRow(user=UserId("7"), flags={Flag.VERIFIED: True, Flag.DELETED: False}),
            AccountRow(user=UserId("u3"), flags={}),
        ],
        [],
    )


def test_missing_optional_columns_count_as_empty(tmp_path: Path) -> None:
    assert read(csv_of(tmp_path, "user\nada\n"), ACCOUNTS)[0] == [AccountRow(user=ADA, flags={})]
    pq.write_table(pa.table({"vip": [True, None], "x": [1, 2], "user": [5, 6]}), tmp_path / "rows.parquet")
    assert [(row.user, dict(row.flags)) for row in read(tmp_path / "rows.parquet", ACCOUNTS)[0]] == [
        ("5", {Flag.VIP: True}),
        ("6", {}),
    ]


def test_listed_user_is_vip_unless_row_says_no(tmp_path: Path) -> None:
    accepted, rejected = read(csv_of(tmp_path, "user,vip\nu1,\nu2,0\nu3,yes\nu4,perhaps\n"), VIPS)
    assert [(row.user, row.flags[Flag.VIP]) for row in accepted] == [("u1", True), ("u2", False), ("u3", True)]
    assert rejected == [(5, "vip is 'perhaps'; it must be true, false or empty.")]


def test_preferences_for_accounts_and_for_everything_are_read(tmp_path: Path) -> None:
    rows: list[Mapping[str, object]] = [
        {"user": "ada", "account": "nova", "volume": "first", "muted": True},
        {"user": "ada", "account": "nova", "muted": "2026-12-24T18:00:00+01:00"},
        {"user": "ada", "account": "nova", "volume": "default", "muted": False},
        {"user": "ada", "account": "", "volume": "off", "push": 0, "quiet": "22:00-07:00", "zone": "Europe/Berlin"},
        {"user": "ada", "push": None},
    ]
    until = datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert preferences(tmp_path, *rows) == (
        [
            PreferenceRow(user=ADA, account=NOVA, volume=Volume.FIRST, visible_from=NEVER),
            PreferenceRow(user=ADA, account=NOVA, visible_from=until),
            PreferenceRow(user=ADA, account=NOVA, volume=Volume.DEFAULT),
            PreferenceRow(
                user=ADA,
                account=None,
                volume=Volume.OFF,
                push=False,
                quiet=QuietHours(start=time(22), end=time(7)),
                zone="Europe/Berlin",
            ),
            PreferenceRow(user=ADA, account=None),
        ],
        [],
    )


def test_parquet_timestamps_are_read(tmp_path: Path) -> None:
    until = datetime(2026, 12, 24, 17, tzinfo=UTC)
    table = pa.table({"user": ["ada"], "account": ["nova"], "muted": pa.array([until], pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "rows.parquet")
    [row] = read(tmp_path / "rows.parquet", PREFERENCES)[0]
    assert row.visible_from == until


def test_impossible_timestamp_is_rejected_and_precise_one_accepted(tmp_path: Path) -> None:
    for unit, moment in (("ns", 1_893_456_000_000_000_001), ("ms", 10**17)):
        muted = pa.array([moment, None], pa.timestamp(unit, "UTC"))
        table = pa.table({"user": [unit, "bob"], "account": ["nova", "nova"], "muted": muted})
        pq.write_table(table, tmp_path / f"{unit}.parquet")
    [precise, _], rejected = read(tmp_path / "ns.parquet", PREFERENCES)
    assert (precise.visible_from, rejected) == (datetime(2030, 1, 1, tzinfo=UTC), [])
    accepted, [(line, reason)] = read(tmp_path / "ms.parquet", PREFERENCES)
    assert ([row.user for row in accepted], line) == (["bob"], 1)
    assert reason.endswith("it must be true, or a time such as 2026-01-31T09:00:00Z.")


REJECTED_VALUES: list[tuple[Mapping[str, object], str]] = [
    ({"account": "nova", "volume": "loud"}, "volume is 'loud'; it must be default, all, first, digest, off or empty."),
    ({"volume": "default"}, "volume is 'default'; it must be all, first, digest, off or empty."),
    ({"muted": True}, "muted requires an account, but the row names none."),
    (
        {"account": "nova", "push": True},
        "push, quiet and zone apply to all notifications, but the row names an account.",
    ),
    ({"account": "nova", "muted": "soon"}, "muted is 'soon'; it must be true, or a time such as 2026-01-31T09:00:00Z."),
    ({"account": "nova", "muted": "2026-12-24"}, "muted has no time zone."),
    (
        {"account": "nova", "muted": "0001-01-01T00:00:00+23:00"},
        "muted is '0001-01-01T00:00:00+23:00'; the year is out of range.",
    ),
    (
        {"account": "nova", "muted": "9999-12-31T23:00:00-23:00"},
        "muted is '9999-12-31T23:00:00-23:00'; the year is out of range.",
    ),
    ({"account": "x" * 257, "volume": "off"}, "account has 257 characters; the limit is 256."),
    ({"quiet": "22:00"}, "quiet is '22:00'; it must be written like 22:00-07:00."),
    ({"quiet": "22:00-7"}, "quiet is '22:00-7'; it must be written like 22:00-07:00."),
    ({"quiet": "07:00-07:00"}, "quiet must begin and end at different times."),
    ({"zone": "Mars/Olympus"}, "zone is 'Mars/Olympus'; it must be an IANA time zone such as Europe/Berlin."),
    ({"zone": "../" * 40}, "zone is '" + ("../" * 40)[:40] + "…'; it must be an IANA time zone such as Europe/Berlin."),
    ({"push": "loudly"}, "push is 'loudly'; it must be true, false or empty."),
    ({"user": "", "push": True}, "user is empty."),
    ({"user": None, "push": True}, "user is missing."),
    ({}, "The row sets nothing; volume or muted or push or quiet or zone is required."),
    ({"account": "nova", "vol": "off"}, "The row sets nothing; volume or muted or push or quiet or zone is required."),
]


@pytest.mark.parametrize(("values", "reason"), REJECTED_VALUES, ids=range(len(REJECTED_VALUES)))
def test_invalid_row_is_rejected_and_its_neighbors_accepted(
    values: Mapping[str, object], reason: str, tmp_path: Path
) -> None:
    accepted, rejected = preferences(
        tmp_path, {"user": "ada", "push": True}, {"user": "ada", **values}, {"user": "bob", "push": None}
    )
    assert ([row.user for row in accepted], rejected) == (["ada", "bob"], [(2, reason)])


def test_malformed_row_is_rejected(tmp_path: Path) -> None:
    assert read(csv_of(tmp_path, "user,vip\nada\n\n"), ACCOUNTS) == ([], [(2, "The row has 1 of 2 columns.")])
    (tmp_path / "rows.ndjson").write_text('[]\n{"user": "ada", "vip": 1.5}\n')
    assert [line for line, _ in read(tmp_path / "rows.ndjson", ACCOUNTS)[1]] == [1, 2]


def test_ignored_columns_are_reported_in_every_format(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"user": "ada", "vpi": "", "vip": "yes", "what else": "x"},
        {"user": "bob", "vpi": "yes", "vip": "", "what else": ""},
    ]
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), tmp_path / "rows.parquet")
    for file in (
        csv_of(tmp_path, "user,vpi, vip,what else,\nada,,yes,x,\nbob,yes,,,\n"),
        ndjson_of(tmp_path, rows),
        tmp_path / "rows.parquet",
    ):
        ignored = list[str]()
        accepted, rejected = read(file, ACCOUNTS, ignored.extend)
        assert ([row.user for row in accepted], rejected, ignored) == (["ada", "bob"], [], ["vpi", "what else"])


def test_ignored_fields_are_reported_once_beside_errors(tmp_path: Path) -> None:
    lines = ['{"user": "ada"}', '{"user": "bob", "a": {}, "ignored_0": 1}', '{"a": [1], "user": "eve"}']
    invalid_lines = ['{"new": 1, "vip": 1.5}', '{"new": 1, "new": 2', '{"a": "\udcff"}']
    (tmp_path / "rows.ndjson").write_text("\n".join([*lines, *invalid_lines]), errors="surrogateescape")
    ignored = list[str]()
    accepted, rejected = read(tmp_path / "rows.ndjson", ACCOUNTS, ignored.extend)
    assert ([row.user for row in accepted], [line for line, _ in rejected]) == (["ada", "bob", "eve"], [4, 5, 6])
    assert ignored == ["a", "ignored_0", "new"]


def test_field_without_a_name_is_ignored(tmp_path: Path) -> None:
    ignored = list[str]()
    rows = [{"user": "ada", "": 1}, {"": 2, "user": "bob"}]
    accepted, rejected = read(ndjson_of(tmp_path, rows), ACCOUNTS, ignored.extend)
    assert ([row.user for row in accepted], rejected, ignored) == (["ada", "bob"], [], [])


def test_reported_ignored_fields_are_bounded(tmp_path: Path) -> None:
    ignored = list[str]()
    rows = [{"user": f"u{n}", f"m{n}": n} for n in range(200)]
    accepted, rejected = read(ndjson_of(tmp_path, rows), ACCOUNTS, ignored.extend)
    assert (len(accepted), rejected, len(ignored)) == (200, [], MAX_IGNORED_NAMES)


def test_missing_required_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadImport, match="The header has name, vip; user is required"):
        read(csv_of(tmp_path, "name,vip\nada,1\n"), ACCOUNTS)
    pq.write_table(pa.table({"name": ["ada"]}), tmp_path / "rows.parquet")
    with pytest.raises(BadImport, match="The file has the columns name; user is missing"):
        read(tmp_path / "rows.parquet", VIPS)
    pq.write_table(pa.table({"user": ["ada"], "vol": ["off"]}), tmp_path / "rows.parquet")
    with pytest.raises(
        BadImport, match="The file has the columns user, vol; volume or muted or push or quiet or zone is missing"
    ):
        read(tmp_path / "rows.parquet", PREFERENCES)
