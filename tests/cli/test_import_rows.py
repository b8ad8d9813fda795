"""`notifier import users`, `vip` and `preferences`: what a file says is there, whatever the verb is cut off by."""

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
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.all_ports import Ports
from notifier.profiles import choose
from tests.cli.conftest import Notifier
from tests.repo.sources import ROOT

NOVA = Subject(Kind.MENTION, UserId("nova"))
MANY = 6_000
KILLS = 2

USERS = [
    "user,verified,vip,deleted",
    *(f"u{n},{n % 3 == 0:d},{n % 5 == 0},{'yes' if n % 7 == 0 else ''}" for n in range(MANY)),
]
WISHES = [
    "user,account,volume,muted,push",
    *(f"u{n},nova,{'off' if n % 3 == 0 else ''},{'true' if n % 5 == 0 else ''}," for n in range(MANY // 2)),
    *(f"u{n},,{'first' if n % 3 == 0 else ''},,{'no' if n % 5 == 0 else ''}" for n in range(MANY // 2)),
]
"""Half of them of everything."""


@contextmanager
def ports_of(data: Path) -> Iterator[Ports]:
    profile = choose(Settings(data=data))
    try:
        yield profile.ports()
    finally:
        profile.close()


def lines(path: Path, rows: Sequence[str]) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def whom(ports: Ports, bits: Bits | None) -> set[str]:
    return set() if bits is None else set(ports.directory.users(members(bits, 0)).values())


def every(step: int, among: int = MANY) -> set[str]:
    return {f"u{n}" for n in range(0, among, step)}


def flags(data: Path) -> Mapping[str, set[str]]:
    """By the rows, with which bitmaps and entries have to agree."""
    with ports_of(data) as p:
        found = {str(flag): whom(p, p.flags.members(flag, 0)) for flag in Flag}
        assert whom(p, p.sets.read(SetKind.VIP, None, [0]).get(0)) == found["vip"]
        known = p.directory.accounts([UserId(f"u{n}") for n in range(MANY)]).values()
        assert {account.user for account in known if account.verified} == found["verified"]
        assert {account.user for account in known if account.deleted} == found["deleted"]
        return found


def wanted(data: Path) -> Mapping[str, set[str]]:
    """The same of what people want of @nova, and of everything."""
    with ports_of(data) as p:
        rows = {**p.wants.sets(NOVA, 0), **p.overalls.sets(0)}
        owners = {kind: NOVA if kind in p.wants.sets(NOVA, 0) else None for kind in rows}
        bitmaps = {kind: p.sets.read(kind, owner, [0]).get(0) for kind, owner in owners.items()}
        found = {str(kind): whom(p, bits) for kind, bits in rows.items()}
        assert {str(kind): whom(p, bits) for kind, bits in bitmaps.items()} == found
        return {kind: some for kind, some in found.items() if some}


def test_columns_that_nothing_was_read_of_are_said_once(tmp_path: Path, notifier: Notifier) -> None:
    file = lines(tmp_path / "users.csv", ["user,vpi,verified", "ada,yes,", "bob,,yes"])
    words = ("import", "users", str(file), "--data", str(tmp_path / "data"))
    assert json.loads(notifier(*words, "--json").stdout)["ignored"] == ["vpi"]
    assert notifier(*words).stdout.endswith("Columns that nothing was read of: vpi\n")


@pytest.mark.parametrize("what", ["users", "preferences"])
def test_import_resume_identical(what: str, tmp_path: Path) -> None:
    chance, data = random.Random(what), tmp_path / "data"
    file = lines(tmp_path / "rows.csv", [*(USERS if what == "users" else WISHES), ",,,,"])
    words = [sys.executable, "-m", "notifier", "import", what, str(file)]
    words += ["--at-once", "300", "--json", "--data", str(data)]
    places = sorted(chance.sample(range(1, MANY), KILLS))
    killed = [killed_behind(place, data, words, chance.random() / 50) for place in places]
    assert any(killed)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    told = json.loads(done.stdout)
    rejects = Path(told["rejects"]).read_text().splitlines()
    assert (done.returncode, told["rejected"], len(rejects), told["rows"]) == (1, 1, 1, MANY + 1)
    if what == "users":
        assert flags(data) == {"verified": every(3), "vip": every(5), "deleted": every(7)}
    else:
        half = MANY // 2
        off, muted = every(3, half), every(5, half)
        assert wanted(data) == {"off": off, "muted": muted, "overall_first": off, "no_push": muted}


def killed_behind(place: int, data: Path, words: Sequence[str], seconds: float) -> bool:
    """A moment after so many rows were read; False where it was through by then."""
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and place > max(
            (int(run.stem) for run in data.glob("imports/*/*.run")), default=0
        ):
            sleep(0.002)
        sleep(seconds)
        process.kill()
    return process.returncode == -SIGKILL


def test_vips_are_named_and_are_there(tmp_path: Path, notifier: Notifier) -> None:
    data = tmp_path / "data"
    file = lines(tmp_path / "vip.ndjson", ['{"user": "ada"}', '{"user": "bob", "vip": false}', '{"vip": true}'])
    done = notifier("import", "vip", str(file), "--json", "--data", str(data))
    told = json.loads(done.stdout)
    assert (done.exit_code, told["rows"], told["rejected"]) == (1, 3, 1)
    assert json.loads(notifier("vip", "list", "--json", "--data", str(data)).stdout)["accounts"] == ["ada"]


def test_ids_that_follow_one_another_share_an_entry_where_that_is_asked_for(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", lines(tmp_path / "users.csv", ["user", *(f"u{n}" for n in range(3_000))])
    assert notifier("import", "users", str(file), "--ranges", "--data", str(data)).exit_code == 0
    with ports_of(data) as p:
        ids = p.directory.range_of(UserId("u7"))
        assert ids is not None
        assert (ids.first, ids.count) == (0, 3_000)
        assert p.directory.end() == 3_000


def test_of_a_file_that_is_cut_off_what_was_read_is_in_the_bitmaps_too(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", tmp_path / "users.csv.gz"
    chance = random.Random(1)
    rows = ["user,vip", *(f"u{n},{'true' if chance.random() < 0.5 else 'false'}" for n in range(2_000))]
    whole = gzip.compress("".join(f"{row}\n" for row in rows).encode())
    file.write_bytes(whole[:-300])
    words = ("import", "users", str(file), "--at-once", "100", "--data", str(data))
    done = notifier(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("The file can't be imported.")
    file.write_bytes(whole)
    assert notifier(*words).exit_code == 0
    should = {row.partition(",")[0] for row in rows if row.endswith("true")}
    assert flags(data)["vip"] == should


def test_what_was_asked_for_of_a_refused_file_is_done_though_it_never_comes_again(
    tmp_path: Path, notifier: Notifier
) -> None:
    data, file = tmp_path / "data", tmp_path / "users.csv"
    file.write_text("user,vip\n" + "".join(f"u{n},1\n" for n in range(200)) + "x" * 70_000)
    assert notifier("import", "users", str(file), "--at-once", "100", "--data", str(data)).exit_code == 2
    other = lines(tmp_path / "other.csv", ["user,vip", "v1,1"])
    assert notifier("import", "users", str(other), "--data", str(data)).exit_code == 0
    assert flags(data)["vip"] == {"v1", *(f"u{n}" for n in range(200))}


def test_a_refused_file_that_comes_again_with_the_same_size_and_time_is_in_the_bitmaps_as_a_whole(
    tmp_path: Path, notifier: Notifier
) -> None:
    """As a broken copy that is copied anew."""
    data, file = tmp_path / "data", tmp_path / "users.csv"
    head, rest = "user,vip\n" + "".join(f"u{n},1\n" for n in range(200)), "".join(f"v{n},1\n" for n in range(10_000))
    file.write_text(head + "x" * len(rest))
    at, words = file.stat().st_mtime_ns, ("import", "users", str(file), "--at-once", "100", "--data", str(data))
    assert notifier(*words).exit_code == 2
    other = lines(tmp_path / "other.csv", ["user,vip", "ada,1"])  # does what was asked for, as a service would
    assert notifier("import", "users", str(other), "--data", str(data)).exit_code == 0
    file.write_text(head + rest)
    os.utime(file, ns=(at, at))
    assert notifier(*words).exit_code == 0
    assert flags(data)["vip"] == {"ada", *(f"u{n}" for n in range(200)), *(f"v{n}" for n in range(10_000))}


@pytest.mark.parametrize(
    ("what", "content", "why"),
    [
        ("users", "name,vip\nada,1\n", "The first line names name, vip; user is needed."),
        ("vip", "", "The first line names nothing; user is needed."),
        ("preferences", "person,volume\nada,off\n", "The first line names person, volume; user is needed."),
        (
            "preferences",
            "user,account,vol\nada,nova,off\n",
            "The first line names user, account, vol; volume or muted or push or quiet or zone is needed.",
        ),
    ],
)
def test_wrong_columns_are_named(what: str, content: str, why: str, tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "rows.csv").write_text(content)
    done = notifier("import", what, str(tmp_path / "rows.csv"), "--data", str(tmp_path / "data"))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
