"""`notifier import` loads a file, resumes after a kill, and reports rejected rows."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from signal import SIGKILL
from time import sleep

import pytest

from notifier.cli.supervisor.forkserver_client import ForkServer
from notifier.config import Settings
from notifier.domain.audience.bitmap import members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.profiles import choose
from tests.cli.conftest import Notifier
from tests.cli.fork_server_and_roles import fork_role, fork_server
from tests.cli.terminal import run_in_terminal
from tests.repo.repository_files import ROOT

Pair = tuple[str, str]
KILLS = 30
FIRST_FILES = [("lock",), ("*.run", "taken"), ("*.run", "taken")]
"""File patterns: the first shows that the import has started, the others that it has made progress."""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with fork_server(tmp_path_factory.mktemp("forks")) as started:
        yield started


def write_graph(path: Path, pairs: Iterable[Pair]) -> Path:
    path.write_text("".join(f"{a},{b}\n" for a, b in [("follower", "followed"), *pairs]))
    return path


def pairs_of(seed: int, count: int) -> list[Pair]:
    """Return pairs in which a few accounts have many followers, and many accounts have few."""
    rng = random.Random(seed)
    followed = ["nova", "lyra", *(f"u{n}" for n in range(40))]
    weights = [count, count / 4, *[1.0] * 40]
    return [(f"u{rng.randrange(count)}", rng.choices(followed, weights)[0]) for _ in range(count)]


def followers(data: Path, accounts: Iterable[str]) -> dict[str, set[str]]:
    """Return the followers according to the rows, and check that bitmaps and heads agree."""
    profile = choose(Settings(data=data))
    try:
        ports, result = profile.ports(), dict[str, set[str]]()
        for name in accounts:
            subject, found_members = Subject(Kind.MENTION, UserId(name)), list[Member]()
            head = ports.sets.follower_counts(subject)
            for shard, total in enumerate(head.by_shard):
                bits = ports.sets.read(SetKind.FOLLOWERS, subject, [shard])
                shard_members = members(bits[shard], shard) if shard in bits else []
                assert shard_members == members(ports.follows.followers(subject, shard), shard)
                assert len(shard_members) == total
                found_members += shard_members
            assert head.total == len(found_members)
            result[name] = set(ports.directory.users(found_members).values())
        return result
    finally:
        profile.close()


def expected(pairs: Sequence[Pair]) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for follower, followed in pairs:
        if follower != followed:
            result.setdefault(followed, set()).add(follower)
    return result


def test_one_command_imports_audience(tmp_path: Path, notifier: Notifier) -> None:
    data, pairs = tmp_path / "data", pairs_of(1, 4_000)
    result = notifier(
        "import", "followers", str(write_graph(tmp_path / "graph.csv", pairs)), "--json", "--data", str(data)
    )
    self_follows = sum(a == b for a, b in pairs)
    assert result.exit_code == (1 if self_follows else 0)
    assert json.loads(result.stdout)["rejected"] == self_follows
    expected_followers = expected(pairs)
    assert followers(data, expected_followers) == expected_followers
    audience = json.loads(notifier("audience", "nova", "--json", "--data", str(data)).stdout)
    assert audience["followers"] == audience["planned_followers"] == len(expected_followers["nova"])
    assert notifier("audience", "verify", "nova", "--data", str(data)).exit_code == 0


def test_rejected_rows_are_written_with_line_numbers(tmp_path: Path, notifier: Notifier) -> None:
    file, rejects = (
        write_graph(tmp_path / "graph.csv", [("u1", "nova"), ("nova", "nova"), ("", "nova")]),
        tmp_path / "no.ndjson",
    )
    arguments = ("import", "followers", str(file), "--rejects", str(rejects), "--data", str(tmp_path / "data"))
    result = notifier(*arguments)
    assert result.exit_code == 1
    assert str(rejects) in result.stdout.replace("\n", "")
    rejected = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert rejected == [
        {"line": 3, "reason": "An account can't follow itself."},
        {"line": 4, "reason": "follower is empty."},
    ]
    second = notifier(*arguments)
    assert (second.exit_code, len(rejects.read_text().splitlines())) == (1, 2)
    write_graph(file, [("nova", "nova")])
    third = notifier(*arguments)
    assert (third.exit_code, len(rejects.read_text().splitlines())) == (2, 2)
    assert str(rejects) in third.stderr


def test_second_file_adds_followers(tmp_path: Path, notifier: Notifier) -> None:
    data = tmp_path / "data"
    for part in (range(20), range(10, 40)):
        file = write_graph(tmp_path / f"{part.start}.csv", [(f"u{n}", "nova") for n in part])
        assert notifier("import", "followers", str(file), "--data", str(data)).exit_code == 0
    assert followers(data, ["nova"]) == {"nova": {f"u{n}" for n in range(40)}}


@pytest.mark.parametrize("name", ["graph.xlsx", "cut.csv.gz", "wrong.csv"])
def test_unreadable_file_is_usage_error_in_one_sentence(name: str, tmp_path: Path, notifier: Notifier) -> None:
    content = {
        "graph.xlsx": b"PK",
        "cut.csv.gz": gzip.compress(b"follower,followed\n" * 99)[:-9],
        "wrong.csv": b"a,b\n",
    }
    (tmp_path / name).write_bytes(content[name])
    result = notifier("import", "followers", str(tmp_path / name), "--data", str(tmp_path / "data"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("The file can't be imported.")
    assert result.stderr.strip().count("\n") == 0


def test_control_characters_of_file_are_not_printed(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "graph.csv").write_bytes(b"follower,\x1b]0;mine\x07\n")
    result = notifier("import", "followers", str(tmp_path / "graph.csv"), "--data", str(tmp_path / "data"))
    assert (result.exit_code, result.stderr.strip().isprintable()) == (2, True)


def test_since_in_the_future_is_refused(tmp_path: Path, notifier: Notifier) -> None:
    file = write_graph(tmp_path / "graph.csv", [("u1", "nova")])
    result = notifier("import", "followers", str(file), "--since", "2999-01-01", "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "2999-01-01 00:00:00 is in the future" in result.stderr


def test_standard_input_is_imported(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"follower": f"u{n}", "followed": "nova"}) + "\n" for n in range(50))
    arguments = ["import", "followers", "-", "--form", "ndjson", "--data", str(tmp_path)]
    result = subprocess.run(_notifier(*arguments), input=lines.encode(), cwd=ROOT, check=True, capture_output=True)
    assert result.stdout.split()[:2] == [b"follows", b"50"]
    assert followers(tmp_path, ["nova"]) == {"nova": {f"u{n}" for n in range(50)}}


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_import_killed_repeatedly_gives_identical_result(tmp_path: Path, forks: ForkServer) -> None:
    rng, killed = random.Random(7), 0
    for seed in count(2):
        data, pairs = tmp_path / f"data{seed}", pairs_of(seed, 30_000)
        pairs[::1_000] = [("nova", "nova")] * 30
        file = write_graph(tmp_path / "graph.csv", pairs)
        arguments = ("import", "followers", str(file), "--at-once", "1500", "--json", "--data", str(data))
        # Most runs make progress, even on a slow machine. A run that is killed after the last step starts from the
        # beginning.
        while (out := _kill_at_work(forks, data, arguments, rng.choice(FIRST_FILES), _lifetime(rng, killed))) is None:
            killed += 1
        report = json.loads(out)
        assert report["rejected"] == len(Path(report["rejects"]).read_text().splitlines()) >= 30
        expected_followers = expected(pairs)
        assert followers(data, expected_followers) == expected_followers
        if killed >= KILLS:
            return


def _lifetime(rng: random.Random, killed: int) -> float | None:
    """Return seconds, or None for a run that is not killed."""
    return rng.uniform(0, 0.3) if killed < KILLS else None


def _kill_at_work(
    forks: ForkServer, data: Path, arguments: Sequence[str], patterns: Sequence[str], seconds: float | None
) -> bytes | None:
    """Kill the import some seconds after it has written a file, never while Python starts.

    Returns its output if it finished before.
    """
    output, earlier = data.with_suffix(".said"), _written_files(data, patterns)
    output.unlink(missing_ok=True)
    process = fork_role(forks, output, *arguments)
    while process.poll() is None and _written_files(data, patterns) == earlier:
        sleep(0.002)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, SIGKILL)
        process.wait()
        return None
    assert code == 1
    return output.read_bytes()


def _written_files(data: Path, patterns: Sequence[str]) -> Sequence[tuple[str, int]]:
    files = []
    for path in sorted(path for pattern in patterns for path in data.glob(f"imports/*/{pattern}")):
        with suppress(FileNotFoundError):  # merged meanwhile
            files.append((path.name, path.stat().st_mtime_ns))
    return files


def test_file_is_imported_by_one_process_and_again_when_changed(tmp_path: Path, notifier: Notifier) -> None:
    data, file = tmp_path / "data", tmp_path / "graph.csv"
    write_graph(file, [(f"u{n}", "nova") for n in range(60_000)])
    arguments = ("import", "followers", str(file), "--data", str(data))
    with subprocess.Popen(_notifier(*arguments, "--at-once", "500"), cwd=ROOT, stderr=subprocess.PIPE) as first:
        while not list(data.glob("imports/*/*.run")):
            assert first.poll() is None
            sleep(0.01)
        second = notifier(*arguments)
        assert second.exit_code == 3
        assert f"Another process is importing {file}." in second.stderr
        write_graph(file, [(f"u{n}", "lyra") for n in range(60)])
        _, error = first.communicate()
    assert first.returncode == 2
    assert b"changed while it was read" in error
    assert notifier(*arguments).exit_code == 0
    assert followers(data, ["lyra"]) == {"lyra": {f"u{n}" for n in range(60)}}


def test_terminal_shows_import_progress(tmp_path: Path) -> None:
    file = write_graph(tmp_path / "graph.csv", pairs_of(3, 60_000))
    arguments = ["import", "followers", str(file), "--at-once", "2000", "--data", str(tmp_path / "data")]
    shown = "".join(run_in_terminal(arguments, width=120, raw=True))
    assert "reading" in shown
    assert "writing" in shown
    assert "rows, " in shown
    assert "/s" in shown


def _notifier(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "notifier", *arguments]
