"""`notifier import` brings in what a file says, whatever it is cut off by, and says what it couldn't take."""

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
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.profiles import choose
from tests.cli.conftest import Notifier
from tests.cli.forked import forked, server
from tests.cli.terminal import drawn
from tests.repo.sources import ROOT

Pair = tuple[str, str]
KILLS = 30
TRACES = [("lock",), ("*.run", "taken"), ("*.run", "taken")]
"""That it began, and that it got somewhere."""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with server(tmp_path_factory.mktemp("forks")) as started:
        yield started


def graph(path: Path, pairs: Iterable[Pair]) -> Path:
    path.write_text("".join(f"{a},{b}\n" for a, b in [("follower", "followed"), *pairs]))
    return path


def pairs_of(seed: int, many: int) -> list[Pair]:
    """Some whom many follow, and many whom few do."""
    chance = random.Random(seed)
    whom = ["nova", "lyra", *(f"u{n}" for n in range(40))]
    likely = [many, many / 4, *[1.0] * 40]
    return [(f"u{chance.randrange(many)}", chance.choices(whom, likely)[0]) for _ in range(many)]


def followers(data: Path, whom: Iterable[str]) -> dict[str, set[str]]:
    """By the rows, which have to say what bitmaps and heads do."""
    profile = choose(Settings(data=data))
    try:
        p, found = profile.ports(), dict[str, set[str]]()
        for name in whom:
            subject, some = Subject(Kind.MENTION, UserId(name)), list[Member]()
            head = p.sets.head(subject)
            for shard, total in enumerate(head.counts):
                bits = p.sets.read(SetKind.FOLLOWERS, subject, [shard])
                here = members(bits[shard], shard) if shard in bits else []
                assert here == members(p.follows.followers(subject, shard), shard)
                assert len(here) == total
                some += here
            assert head.total == len(some)
            found[name] = set(p.directory.users(some).values())
        return found
    finally:
        profile.close()


def expected(pairs: Sequence[Pair]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for follower, followed in pairs:
        if follower != followed:
            found.setdefault(followed, set()).add(follower)
    return found


def test_one_command_and_the_audience_is_there(tmp_path: Path, notifier: Notifier) -> None:
    data, pairs = tmp_path / "data", pairs_of(1, 4_000)
    done = notifier("import", "followers", str(graph(tmp_path / "graph.csv", pairs)), "--json", "--data", str(data))
    wrong = sum(a == b for a, b in pairs)
    assert done.exit_code == (1 if wrong else 0)
    assert json.loads(done.stdout)["rejected"] == wrong
    should = expected(pairs)
    assert followers(data, should) == should
    told = json.loads(notifier("audience", "nova", "--json", "--data", str(data)).stdout)
    assert told["followers"] == told["followers_by_head"] == len(should["nova"])
    assert notifier("audience", "verify", "nova", "--data", str(data)).exit_code == 0


def test_rows_that_cannot_be_taken_are_in_a_file_with_their_lines(tmp_path: Path, notifier: Notifier) -> None:
    file, rejects = (
        graph(tmp_path / "graph.csv", [("u1", "nova"), ("nova", "nova"), ("", "nova")]),
        tmp_path / "no.ndjson",
    )
    words = ("import", "followers", str(file), "--rejects", str(rejects), "--data", str(tmp_path / "data"))
    done = notifier(*words)
    assert done.exit_code == 1
    assert str(rejects) in done.stdout.replace("\n", "")
    told = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert told == [{"line": 3, "reason": "Nobody follows himself."}, {"line": 4, "reason": "follower is empty."}]
    again = notifier(*words)
    assert (again.exit_code, len(rejects.read_text().splitlines())) == (1, 2)
    graph(file, [("nova", "nova")])
    other = notifier(*words)
    assert (other.exit_code, len(rejects.read_text().splitlines())) == (2, 2)
    assert str(rejects) in other.stderr


def test_a_second_file_adds(tmp_path: Path, notifier: Notifier) -> None:
    data = tmp_path / "data"
    for part in (range(20), range(10, 40)):
        file = graph(tmp_path / f"{part.start}.csv", [(f"u{n}", "nova") for n in part])
        assert notifier("import", "followers", str(file), "--data", str(data)).exit_code == 0
    assert followers(data, ["nova"]) == {"nova": {f"u{n}" for n in range(40)}}


@pytest.mark.parametrize("name", ["graph.xlsx", "cut.csv.gz", "wrong.csv"])
def test_what_cannot_be_read_is_wrong_usage_and_one_sentence(name: str, tmp_path: Path, notifier: Notifier) -> None:
    content = {
        "graph.xlsx": b"PK",
        "cut.csv.gz": gzip.compress(b"follower,followed\n" * 99)[:-9],
        "wrong.csv": b"a,b\n",
    }
    (tmp_path / name).write_bytes(content[name])
    done = notifier("import", "followers", str(tmp_path / name), "--data", str(tmp_path / "data"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("The file can't be imported.")
    assert done.stderr.strip().count("\n") == 0


def test_what_a_file_names_steers_no_terminal(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "graph.csv").write_bytes(b"follower,\x1b]0;mine\x07\n")
    done = notifier("import", "followers", str(tmp_path / "graph.csv"), "--data", str(tmp_path / "data"))
    assert (done.exit_code, done.stderr.strip().isprintable()) == (2, True)


def test_nobody_is_made_blind_until_a_moment_to_come(tmp_path: Path, notifier: Notifier) -> None:
    file = graph(tmp_path / "graph.csv", [("u1", "nova")])
    done = notifier("import", "followers", str(file), "--since", "2999-01-01", "--data", str(tmp_path / "data"))
    assert done.exit_code == 2
    assert "2999-01-01 00:00:00 is to come" in done.stderr


def test_the_standard_input_is_imported_too(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"follower": f"u{n}", "followed": "nova"}) + "\n" for n in range(50))
    words = ["import", "followers", "-", "--form", "ndjson", "--data", str(tmp_path)]
    done = subprocess.run(_notifier(*words), input=lines.encode(), cwd=ROOT, check=True, capture_output=True)
    assert done.stdout.split()[:2] == [b"follows", b"50"]
    assert followers(tmp_path, ["nova"]) == {"nova": {f"u{n}" for n in range(50)}}


@pytest.mark.timeout(400)
def test_import_resume_identical(tmp_path: Path, forks: ForkServer) -> None:
    chance, killed = random.Random(7), 0
    for seed in count(2):
        data, pairs = tmp_path / f"data{seed}", pairs_of(seed, 30_000)
        pairs[::1_000] = [("nova", "nova")] * 30
        file = graph(tmp_path / "graph.csv", pairs)
        words = ("import", "followers", str(file), "--at-once", "1500", "--json", "--data", str(data))
        # Most lives get somewhere, on a machine that is slow, too. Who is killed behind the last step does all again.
        while (out := _killed_at_work(forks, data, words, chance.choice(TRACES), _life(chance, killed))) is None:
            killed += 1
        told = json.loads(out)
        assert told["rejected"] == len(Path(told["rejects"]).read_text().splitlines()) >= 30
        should = expected(pairs)
        assert followers(data, should) == should
        if killed >= KILLS:
            return


def _life(chance: random.Random, killed: int) -> float | None:
    """Seconds; None where it may live."""
    return chance.uniform(0, 0.3) if killed < KILLS else None


def _killed_at_work(
    forks: ForkServer, data: Path, words: Sequence[str], trace: Sequence[str], seconds: float | None
) -> bytes | None:
    """So long after it left a trace, and not while Python starts; what it said where it was through."""
    said, before = data.with_suffix(".said"), _left(data, trace)
    said.unlink(missing_ok=True)
    process = forked(forks, said, *words)
    while process.poll() is None and _left(data, trace) == before:
        sleep(0.002)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, SIGKILL)
        process.wait()
        return None
    assert code == 1
    return said.read_bytes()


def _left(data: Path, names: Sequence[str]) -> Sequence[tuple[str, int]]:
    found = []
    for path in sorted(path for name in names for path in data.glob(f"imports/*/{name}")):
        with suppress(FileNotFoundError):  # merged meanwhile
            found.append((path.name, path.stat().st_mtime_ns))
    return found


def test_a_file_is_imported_by_one_process_at_a_time_and_anew_when_it_changes(
    tmp_path: Path, notifier: Notifier
) -> None:
    data, pipe = tmp_path / "data", tmp_path / "graph.csv"
    graph(pipe, [(f"u{n}", "nova") for n in range(60_000)])
    words = ("import", "followers", str(pipe), "--data", str(data))
    with subprocess.Popen(_notifier(*words, "--at-once", "500"), cwd=ROOT, stderr=subprocess.PIPE) as first:
        while not list(data.glob("imports/*/*.run")):
            assert first.poll() is None
            sleep(0.01)
        second = notifier(*words)
        assert second.exit_code == 3
        assert f"Another process is importing {pipe} right now." in second.stderr
        graph(pipe, [(f"u{n}", "lyra") for n in range(60)])
        _, error = first.communicate()
    assert first.returncode == 2
    assert b"changed while it was read" in error
    assert notifier(*words).exit_code == 0
    assert followers(data, ["lyra"]) == {"lyra": {f"u{n}" for n in range(60)}}


def test_somebody_who_watches_sees_how_far_it_is(tmp_path: Path) -> None:
    file = graph(tmp_path / "graph.csv", pairs_of(3, 60_000))
    words = ["import", "followers", str(file), "--at-once", "2000", "--data", str(tmp_path / "data")]
    shown = "".join(drawn(words, width=120, raw=True))
    assert "reading" in shown
    assert "writing" in shown
    assert "rows, " in shown
    assert "/s" in shown


def _notifier(*words: str) -> list[str]:
    return [sys.executable, "-m", "notifier", *words]
