"""`notifier import users`, `vip` and `preferences` load every row despite kills."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from time import sleep

import pytest

from notifier.config import Settings
from notifier.domain.audience.account_flags import Flag
from notifier.domain.audience.bitmap import Bits, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.all_ports import Ports
from notifier.profiles import choose
from tests.cli.conftest import Notifier
from tests.repo.repository_files import ROOT

pytestmark = pytest.mark.thorough

NOVA = Subject(Kind.MENTION, UserId("nova"))
MANY = 6_000
KILLS = 2

USERS = [
    "user,verified,vip,deleted",
    *(f"u{n},{n % 3 == 0:d},{n % 5 == 0},{'yes' if n % 7 == 0 else ''}" for n in range(MANY)),
]
PREFERENCES = [
    "user,account,volume,muted,push",
    *(f"u{n},nova,{'off' if n % 3 == 0 else ''},{'true' if n % 5 == 0 else ''}," for n in range(MANY // 2)),
    *(f"u{n},,{'first' if n % 3 == 0 else ''},,{'no' if n % 5 == 0 else ''}" for n in range(MANY // 2)),
]
"""Half of them are account-wide."""


@contextmanager
def ports_of(data: Path) -> Iterator[Ports]:
    profile = choose(Settings(data=data))
    try:
        yield profile.ports()
    finally:
        profile.close()


def write_lines(path: Path, rows: Sequence[str]) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def users_of(ports: Ports, bits: Bits | None) -> set[str]:
    return set() if bits is None else set(ports.directory.users(members(bits, 0)).values())


def every(step: int, total: int = MANY) -> set[str]:
    return {f"u{n}" for n in range(0, total, step)}


def flags(data: Path) -> Mapping[str, set[str]]:
    """Return the flags according to the rows, and check that bitmaps and directory entries agree."""
    with ports_of(data) as ports:
        result = {str(flag): users_of(ports, ports.account_flags.members(flag, 0)) for flag in Flag}
        assert users_of(ports, ports.sets.read(SetKind.VIP, None, [0]).get(0)) == result["vip"]
        known = ports.directory.accounts([UserId(f"u{n}") for n in range(MANY)]).values()
        assert {account.user for account in known if account.verified} == result["verified"]
        assert {account.user for account in known if account.deleted} == result["deleted"]
        return result


def preferences(data: Path) -> Mapping[str, set[str]]:
    """Return the preferences for @nova and account-wide, checked in the same way."""
    with ports_of(data) as ports:
        rows = {**ports.subject_preferences.member_sets(NOVA, 0), **ports.account_preferences.member_sets(0)}
        owners = {kind: NOVA if kind in ports.subject_preferences.member_sets(NOVA, 0) else None for kind in rows}
        bitmaps = {kind: ports.sets.read(kind, owner, [0]).get(0) for kind, owner in owners.items()}
        result = {str(kind): users_of(ports, bits) for kind, bits in rows.items()}
        assert {str(kind): users_of(ports, bits) for kind, bits in bitmaps.items()} == result
        return {kind: users for kind, users in result.items() if users}


def test_ignored_columns_are_reported_once(tmp_path: Path, notifier: Notifier) -> None:
    file = write_lines(tmp_path / "users.csv", ["user,vpi,verified", "ada,yes,", "bob,,yes"])
    arguments = ("import", "users", str(file), "--data", str(tmp_path / "data"))
    assert json.loads(notifier(*arguments, "--json").stdout)["ignored"] == ["vpi"]
    assert notifier(*arguments).stdout.endswith("Ignored columns: vpi\n")


@pytest.mark.parametrize("dataset", ["users", "preferences"])
def test_import_killed_repeatedly_gives_identical_result(dataset: str, tmp_path: Path) -> None:
    rng, data = random.Random(dataset), tmp_path / "data"
    file = write_lines(tmp_path / "rows.csv", [*(USERS if dataset == "users" else PREFERENCES), ",,,,"])
    arguments = [sys.executable, "-m", "notifier", "import", dataset, str(file)]
    arguments += ["--at-once", "300", "--json", "--data", str(data)]
    row_numbers = sorted(rng.sample(range(1, MANY), KILLS))
    killed = [killed_after(row_number, data, arguments, rng.random() / 50) for row_number in row_numbers]
    assert any(killed)
    result = subprocess.run(arguments, cwd=ROOT, capture_output=True, check=False)
    report = json.loads(result.stdout)
    rejects = Path(report["rejects"]).read_text().splitlines()
    assert (result.returncode, report["rejected"], len(rejects), report["rows"]) == (1, 1, 1, MANY + 1)
    if dataset == "users":
        assert flags(data) == {"verified": every(3), "vip": every(5), "deleted": every(7)}
    else:
        half = MANY // 2
        off, muted = every(3, half), every(5, half)
        assert preferences(data) == {"off": off, "muted": muted, "overall_first": off, "no_push": muted}


def killed_after(row_number: int, data: Path, arguments: Sequence[str], seconds: float) -> bool:
    """Kill the import shortly after it has read so many rows. Returns False if it had finished by then."""
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and row_number > max(
            (int(run.stem) for run in data.glob("imports/*/*.run")), default=0
        ):
            sleep(0.002)
        sleep(seconds)
        process.kill()
    return process.returncode == -SIGKILL


def test_vips_are_imported(tmp_path: Path, notifier: Notifier) -> None:
    data = tmp_path / "data"
    file = write_lines(tmp_path / "vip.ndjson", ['{"user": "ada"}', '{"user": "bob", "vip": false}', '{"vip": true}'])
    result = notifier("import", "vip", str(file), "--json", "--data", str(data))
    report = json.loads(result.stdout)
    assert (result.exit_code, report["rows"], report["rejected"]) == (1, 3, 1)
    assert json.loads(notifier("vip", "list", "--json", "--data", str(data)).stdout)["accounts"] == ["ada"]


def test_successive_ids_share_a_range_with_option_ranges(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", write_lines(tmp_path / "users.csv", ["user", *(f"u{n}" for n in range(3_000))])
    assert notifier("import", "users", str(file), "--ranges", "--data", str(data)).exit_code == 0
    with ports_of(data) as ports:
        ids = ports.directory.id_range_of(UserId("u7"))
        assert ids is not None
        assert (ids.first, ids.count) == (0, 3_000)
        assert ports.directory.next_number() == 3_000


def test_rows_of_truncated_file_are_in_bitmaps(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", tmp_path / "users.csv.gz"
    rng = random.Random(1)
    rows = ["user,vip", *(f"u{n},{'true' if rng.random() < 0.5 else 'false'}" for n in range(2_000))]
    compressed = gzip.compress("".join(f"{row}\n" for row in rows).encode())
    file.write_bytes(compressed[:-300])
    arguments = ("import", "users", str(file), "--at-once", "100", "--data", str(data))
    result = notifier(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("The file can't be imported.")
    file.write_bytes(compressed)
    assert notifier(*arguments).exit_code == 0
    expected = {row.partition(",")[0] for row in rows if row.endswith("true")}
    assert flags(data)["vip"] == expected


def test_next_import_finishes_work_of_a_refused_file(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", tmp_path / "users.csv"
    file.write_text("user,vip\n" + "".join(f"u{n},1\n" for n in range(200)) + "x" * 70_000)
    assert notifier("import", "users", str(file), "--at-once", "100", "--data", str(data)).exit_code == 2
    other_file = write_lines(tmp_path / "other.csv", ["user,vip", "v1,1"])
    assert notifier("import", "users", str(other_file), "--data", str(data)).exit_code == 0
    assert flags(data)["vip"] == {"v1", *(f"u{n}" for n in range(200))}


def test_repaired_file_of_same_size_and_time_is_imported_wholly(tmp_path: Path, notifier: Notifier) -> None:
    """This happens when a broken copy of a file is copied again."""
    data, file = tmp_path / "data", tmp_path / "users.csv"
    head, tail = "user,vip\n" + "".join(f"u{n},1\n" for n in range(200)), "".join(f"v{n},1\n" for n in range(10_000))
    file.write_text(head + "x" * len(tail))
    mtime, arguments = file.stat().st_mtime_ns, ("import", "users", str(file), "--at-once", "100", "--data", str(data))
    assert notifier(*arguments).exit_code == 2
    other_file = write_lines(
        tmp_path / "other.csv", ["user,vip", "ada,1"]
    )  # finishes the queued work, as a service would
    assert notifier("import", "users", str(other_file), "--data", str(data)).exit_code == 0
    file.write_text(head + tail)
    os.utime(file, ns=(mtime, mtime))
    assert notifier(*arguments).exit_code == 0
    assert flags(data)["vip"] == {"ada", *(f"u{n}" for n in range(200)), *(f"v{n}" for n in range(10_000))}


@pytest.mark.parametrize(
    ("dataset", "content", "reason"),
    [
        ("users", "name,vip\nada,1\n", "The header has name, vip; user is required."),
        ("vip", "", "The header has nothing; user is required."),
        ("preferences", "person,volume\nada,off\n", "The header has person, volume; user is required."),
        (
            "preferences",
            "user,account,vol\nada,nova,off\n",
            "The header has user, account, vol; volume or muted or push or quiet or zone is required.",
        ),
    ],
)
def test_wrong_columns_are_named(dataset: str, content: str, reason: str, tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "rows.csv").write_text(content)
    result = notifier("import", dataset, str(tmp_path / "rows.csv"), "--data", str(tmp_path / "data"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert reason in result.stderr
