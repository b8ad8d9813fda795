"""Files of follows: every row is taken or told, in whatever form and packing, from wherever one goes on."""

import gzip
import io
import json
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.adapters.imports.datasets import EDGES
from notifier.adapters.imports.source import form_of, opened
from notifier.domain.errors import BadImport
from notifier.ports.imports import NumberedFollows

Pair = tuple[str, str]
Told = list[tuple[int, str]]

PAIRS: list[Pair] = [("u1", "nova"), ("u2", "nova"), ("ü3", "lyra"), ("u4", "nova"), ("u5", 'no va, "x"')]


def csv_of(pairs: Sequence[Pair], end: str = "\n") -> bytes:
    quoted = ['"{}","{}"'.format(*(name.replace('"', '""') for name in pair)) for pair in pairs]
    return end.join(["follower,followed", *quoted, ""]).encode()


def ndjson_of(pairs: Sequence[Pair]) -> bytes:
    return "".join(json.dumps({"follower": a, "followed": b}) + "\n" for a, b in pairs).encode()


def parquet_of(pairs: Sequence[Pair]) -> bytes:
    into = io.BytesIO()
    table = pa.table({"followed": [b for _, b in pairs], "at": [1] * len(pairs), "follower": [a for a, _ in pairs]})
    pq.write_table(table, into, row_group_size=2)
    return into.getvalue()


FORMS: dict[str, Callable[[Sequence[Pair]], bytes]] = {
    "graph.csv": csv_of,
    "windows.csv": lambda pairs: csv_of(pairs, "\r\n"),
    "old.csv": lambda pairs: csv_of(pairs, "\r"),
    "mark.csv": lambda pairs: b"\xef\xbb\xbf" + csv_of(pairs),
    "graph.ndjson": ndjson_of,
    "empty.ndjson": lambda pairs: b"\n \r\n".join(ndjson_of(pairs).splitlines()),
    "graph.parquet": parquet_of,
    "graph.csv.gz": lambda pairs: gzip.compress(csv_of(pairs)),
    "two.csv.gz": lambda pairs: gzip.compress(csv_of(pairs)[:20]) + gzip.compress(csv_of(pairs)[20:]),
    "graph.ndjson.zst": lambda pairs: _framed(ndjson_of(pairs)),
}


def _framed(content: bytes) -> bytes:
    into = pa.BufferOutputStream()
    with pa.CompressedOutputStream(into, "zstd") as packed:
        packed.write(content)
    return bytes(into.getvalue().to_pybytes())


def read(
    file: Path | io.BufferedReader, form: str, behind: int = 0, at_once: int = 2
) -> tuple[list[Pair], Told, list[int]]:
    """The pairs, what was told, and up to where each run reached."""
    told: Told = []
    with opened(file, form, EDGES, lambda line, why: told.append((line, why)), at_once) as source:
        runs = list(source.behind(behind))
    pairs = [pair for run in runs for pair in zip(*map(list, (run.followers, run.followed)), strict=True)]
    return [(str(a), str(b)) for a, b in pairs], told, [run.read for run in runs]


def made(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("name", FORMS)
def test_every_row_is_read_whatever_the_form(name: str, tmp_path: Path) -> None:
    file = made(tmp_path, name, FORMS[name](PAIRS))
    pairs, told, _ = read(file, form_of(name))
    assert (pairs, told) == (PAIRS, [])


@pytest.mark.parametrize("name", FORMS)
def test_it_goes_on_behind_any_run(name: str, tmp_path: Path) -> None:
    file = made(tmp_path, name, FORMS[name](PAIRS))
    whole, _, places = read(file, form_of(name))
    for place in places:
        before = read(file, form_of(name), at_once=place)[0][:place]
        behind, _, _ = read(file, form_of(name), behind=place)
        assert [pair for pair in whole if pair not in behind] == [p for p in before if p not in behind]
        assert {*before, *behind} == {*whole}
    assert read(file, form_of(name), behind=places[-1])[0] == []


BAD: list[tuple[str, str]] = [
    ("", "follower is empty."),
    ("x" * 1_000, "follower has 1000 characters; 256 are the most."),
    ("u\x07", "follower has control characters."),
    ("nova", "Nobody follows himself."),
]


@pytest.mark.parametrize(("follower", "why"), BAD, ids=["empty", "of 1 kB", "of control", "himself"])
@pytest.mark.parametrize("name", ["graph.csv", "graph.ndjson", "graph.parquet"])
def test_a_row_that_cannot_be_taken_is_told_with_its_place(name: str, follower: str, why: str, tmp_path: Path) -> None:
    pairs = [("u1", "nova"), (follower, "nova"), ("u2", "nova")]
    found, told, _ = read(made(tmp_path, name, FORMS[name](pairs)), form_of(name))
    line = 3 if name == "graph.csv" else 2
    assert (found, told) == ([("u1", "nova"), ("u2", "nova")], [(line, why)])


def test_what_is_no_row_at_all_is_told(tmp_path: Path) -> None:
    csv = made(tmp_path, "a.csv", b"followed,x,follower\nnova,1,u1\nnova\n\nnova,\xff,\xff\n")
    assert read(csv, "csv")[:2] == (
        [("u1", "nova")],
        [(3, "It has 1 of 3 columns."), (5, "follower has control characters.")],
    )
    lines = b'{"follower": 1, "followed": "nova"}\n[]\n{"followed": "nova"}\n{"follower": 1.5, "followed": "nova"}\nx\n'
    pairs, told, _ = read(made(tmp_path, "a.ndjson", lines), "ndjson")
    assert pairs == [("1", "nova")]
    assert [line for line, _ in told] == [2, 3, 4, 5]
    assert told[1] == (3, "follower is missing.")


def test_numbers_in_columns_are_ids_and_what_is_missing_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"follower": [1, None, 3], "followed": [9, 9, 3]}), tmp_path / "n.parquet")
    pairs, told, _ = read(tmp_path / "n.parquet", "parquet", at_once=3)
    assert (pairs, told) == ([("1", "9")], [(2, "follower is missing."), (3, "Nobody follows himself.")])


def test_whole_numbers_come_as_arrays_unless_something_is_to_be_told_of_them(tmp_path: Path) -> None:
    numbers = {"follower": pa.array([1, 2, 3, 4, 5], pa.uint32()), "followed": [9] * 5}
    pq.write_table(pa.table(numbers), tmp_path / "n.parquet")
    with opened(tmp_path / "n.parquet", "parquet", EDGES, _unexpected, 3) as source:
        first, second = source.behind(0)
        assert isinstance(first, NumberedFollows)
        assert (first.followers.tolist(), first.followed.tolist(), first.read) == ([1, 2, 3], [9, 9, 9], 3)
        assert (isinstance(second, NumberedFollows), second.read) == (True, 5)
        [rest] = source.behind(4)
        assert (rest.followers.tolist() if isinstance(rest, NumberedFollows) else None) == [5]


@pytest.mark.parametrize("odd", [-1, 9, 2**63])
def test_a_number_that_cannot_be_one_of_a_range_is_looked_at_by_itself(odd: int, tmp_path: Path) -> None:
    kind = pa.uint64() if odd > 0 else pa.int64()
    pq.write_table(
        pa.table({"follower": pa.array([1, odd], kind), "followed": pa.array([9, 9], kind)}), tmp_path / "n.parquet"
    )
    pairs, told, _ = read(tmp_path / "n.parquet", "parquet")
    assert [(str(a), str(b)) for a, b in pairs] == [("1", "9"), (str(odd), "9")]
    assert told == ([(2, "Nobody follows himself.")] if odd == 9 else [])


def _unexpected(line: int, why: str) -> None:
    raise AssertionError((line, why))


WRONG: dict[str, tuple[bytes, str]] = {
    "a.csv": (b"user,whom\nu1,nova\n", "The first line names user, whom; follower and followed are needed."),
    "none.csv": (b"", "The first line names nothing; follower and followed are needed."),
    "binary.ndjson": (
        bytes(range(1, 256)).replace(b"\n", b"").replace(b"\r", b"") * 300,
        "A line has 65,536 characters",
    ),
    "cut.csv.gz": (gzip.compress(csv_of(PAIRS * 999))[:-30], "It can't be unpacked"),
    "spoilt.csv.gz": (gzip.compress(csv_of(PAIRS))[:-6] + b"123456", "It can't be unpacked"),
    "cut.ndjson.zst": (_framed(ndjson_of(PAIRS * 99))[:-30], "It can't be"),
    "cut.parquet": (parquet_of(PAIRS)[:-30], "It is no Parquet, or cut off"),
    "table.csv": (parquet_of(PAIRS), "It is Parquet, which --form parquet reads"),
    "text.parquet": (csv_of(PAIRS), "It is no Parquet, or cut off"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_not_what_it_says_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    content, why = WRONG[name]
    with pytest.raises(BadImport, match=why):
        read(made(tmp_path, name, content), form_of(name))


def test_wrong_columns_of_a_table_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"follower": ["u1"], "whom": ["nova"]}), tmp_path / "a.parquet")
    with pytest.raises(BadImport, match="Its columns are follower, whom; followed is missing"):
        read(tmp_path / "a.parquet", "parquet")
    pq.write_table(pa.table({"follower": [1.5], "followed": ["nova"]}), tmp_path / "b.parquet")
    with pytest.raises(BadImport, match="Its column follower is of type double; text or whole numbers are needed"):
        read(tmp_path / "b.parquet", "parquet")


def test_the_standard_input_is_lines_and_never_parquet(tmp_path: Path) -> None:
    file = made(tmp_path, "graph", gzip.compress(csv_of(PAIRS)))
    with file.open("rb") as stream:
        assert read(stream, "csv")[0] == PAIRS
    with file.open("rb") as stream, pytest.raises(BadImport, match="standard input"):
        read(stream, "parquet")


def test_a_pipe_is_read_as_the_standard_input_is(tmp_path: Path) -> None:
    pipe = tmp_path / "graph.csv"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[gzip.compress(csv_of(PAIRS))])
    writer.start()
    assert read(pipe, "csv")[0] == PAIRS
    writer.join()
    with pytest.raises(BadImport, match="a pipe"):
        read(pipe, "parquet")


@pytest.mark.parametrize("name", ["graph", "graph.gz", "graph.xlsx", ".csv.zst.old"])
def test_a_name_that_does_not_say_what_it_is_is_refused(name: str) -> None:
    with pytest.raises(BadImport, match="--form does"):
        form_of(name)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)), max_size=9))
def test_csv_and_ndjson_are_read_alike(pairs: list[Pair]) -> None:
    found = [
        read(io.BufferedReader(io.BytesIO(form(pairs))), kind)[:2]
        for kind, form in (("csv", csv_of), ("ndjson", ndjson_of))
    ]
    assert found[0][0] == found[1][0]
    assert [why for _, why in found[0][1]] == [why for _, why in found[1][1]]


@pytest.mark.parametrize("name", ["graph.csv", "graph.csv.gz", "graph.ndjson.zst", "graph.parquet"])
def test_a_reader_that_is_cut_off_ends_quietly_also_behind_its_file(tmp_path: Path, name: str) -> None:
    """As of an import that Ctrl-C stops while its rows are written: the file is closed before the reader is."""
    file = made(tmp_path, name, FORMS[name](PAIRS))
    with opened(file, form_of(name), EDGES, lambda line, why: None, 2) as source:
        rows = source.behind(0)
        assert next(rows).read == 2
    assert isinstance(rows, Generator)
    rows.close()
