"""Import of follows in every format and compression: accepted rows, rejections and resumption."""

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

from notifier.adapters.imports.account_follow_preference_layouts import FOLLOWS
from notifier.adapters.imports.sources_and_spilled_edges import form_of, open_source
from notifier.domain.errors import BadImport
from notifier.ports.import_batches_and_key_sort import NumericIdFollowEdges

Pair = tuple[str, str]
Rejections = list[tuple[int, str]]

PAIRS: list[Pair] = [("u1", "nova"), ("u2", "nova"), ("ü3", "lyra"), ("u4", "nova"), ("u5", 'no va, "x"')]


def csv_of(pairs: Sequence[Pair], line_end: str = "\n") -> bytes:
    quoted = ['"{}","{}"'.format(*(name.replace('"', '""') for name in pair)) for pair in pairs]
    return line_end.join(["follower,followed", *quoted, ""]).encode()


def ndjson_of(pairs: Sequence[Pair]) -> bytes:
    return "".join(json.dumps({"follower": a, "followed": b}) + "\n" for a, b in pairs).encode()


def parquet_of(pairs: Sequence[Pair]) -> bytes:
    buffer = io.BytesIO()
    table = pa.table({"followed": [b for _, b in pairs], "at": [1] * len(pairs), "follower": [a for a, _ in pairs]})
    pq.write_table(table, buffer, row_group_size=2)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Sequence[Pair]], bytes]] = {
    "graph.csv": csv_of,
    "windows.csv": lambda pairs: csv_of(pairs, "\r\n"),
    "old.csv": lambda pairs: csv_of(pairs, "\r"),
    "mark.csv": lambda pairs: b"\xef\xbb\xbf" + csv_of(pairs),
    "graph.ndjson": ndjson_of,
    "empty.ndjson": lambda pairs: b"\n \r\n".join(ndjson_of(pairs).splitlines()),
    "graph.parquet": parquet_of,
    "graph.csv.gz": lambda pairs: gzip.compress(csv_of(pairs)),
    "two.csv.gz": lambda pairs: gzip.compress(csv_of(pairs)[:20]) + gzip.compress(csv_of(pairs)[20:]),
    "graph.ndjson.zst": lambda pairs: _compressed(ndjson_of(pairs)),
}


def _compressed(content: bytes) -> bytes:
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, "zstd") as stream:
        stream.write(content)
    return bytes(buffer.getvalue().to_pybytes())


def read(
    file: Path | io.BufferedReader, form: str, resume_at: int = 0, batch_size: int = 2
) -> tuple[list[Pair], Rejections, list[int]]:
    """Return the pairs, the rejections, and the position that each batch reached."""
    rejected: Rejections = []
    with open_source(file, form, FOLLOWS, lambda line, reason: rejected.append((line, reason)), batch_size) as source:
        batches = list(source.rows_after(resume_at))
    pairs = [pair for batch in batches for pair in zip(*map(list, (batch.followers, batch.followed)), strict=True)]
    return [(str(a), str(b)) for a, b in pairs], rejected, [batch.rows_read for batch in batches]


def write_file(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_is_read_in_every_format(name: str, tmp_path: Path) -> None:
    file = write_file(tmp_path, name, FORMATS[name](PAIRS))
    pairs, rejected, _ = read(file, form_of(name))
    assert (pairs, rejected) == (PAIRS, [])


@pytest.mark.parametrize("name", FORMATS)
def test_import_resumes_after_any_batch(name: str, tmp_path: Path) -> None:
    file = write_file(tmp_path, name, FORMATS[name](PAIRS))
    all_pairs, _, positions = read(file, form_of(name))
    for position in positions:
        before = read(file, form_of(name), batch_size=position)[0][:position]
        after, _, _ = read(file, form_of(name), resume_at=position)
        assert [pair for pair in all_pairs if pair not in after] == [p for p in before if p not in after]
        assert {*before, *after} == {*all_pairs}
    assert read(file, form_of(name), resume_at=positions[-1])[0] == []


REJECTED_NAMES: list[tuple[str, str]] = [
    ("", "follower is empty."),
    ("x" * 1_000, "follower has 1000 characters; the limit is 256."),
    ("u\x07", "follower has control characters."),
    ("nova", "An account can't follow itself."),
]


@pytest.mark.parametrize(
    ("follower", "reason"), REJECTED_NAMES, ids=["empty", "of 1 kB", "control character", "itself"]
)
@pytest.mark.parametrize("name", ["graph.csv", "graph.ndjson", "graph.parquet"])
def test_invalid_row_is_rejected_with_its_line(name: str, follower: str, reason: str, tmp_path: Path) -> None:
    pairs = [("u1", "nova"), (follower, "nova"), ("u2", "nova")]
    accepted, rejected, _ = read(write_file(tmp_path, name, FORMATS[name](pairs)), form_of(name))
    line = 3 if name == "graph.csv" else 2
    assert (accepted, rejected) == ([("u1", "nova"), ("u2", "nova")], [(line, reason)])


def test_malformed_row_is_rejected(tmp_path: Path) -> None:
    csv = write_file(tmp_path, "a.csv", b"followed,x,follower\nnova,1,u1\nnova\n\nnova,\xff,\xff\n")
    assert read(csv, "csv")[:2] == (
        [("u1", "nova")],
        [(3, "The row has 1 of 3 columns."), (5, "follower has control characters.")],
    )
    lines = b'{"follower": 1, "followed": "nova"}\n[]\n{"followed": "nova"}\n{"follower": 1.5, "followed": "nova"}\nx\n'
    pairs, rejected, _ = read(write_file(tmp_path, "a.ndjson", lines), "ndjson")
    assert pairs == [("1", "nova")]
    assert [line for line, _ in rejected] == [2, 3, 4, 5]
    assert rejected[1] == (3, "follower is missing.")


def test_numeric_ids_are_read_and_missing_ones_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"follower": [1, None, 3], "followed": [9, 9, 3]}), tmp_path / "n.parquet")
    pairs, rejected, _ = read(tmp_path / "n.parquet", "parquet", batch_size=3)
    assert (pairs, rejected) == ([("1", "9")], [(2, "follower is missing."), (3, "An account can't follow itself.")])


def test_valid_numeric_columns_are_read_as_arrays(tmp_path: Path) -> None:
    numbers = {"follower": pa.array([1, 2, 3, 4, 5], pa.uint32()), "followed": [9] * 5}
    pq.write_table(pa.table(numbers), tmp_path / "n.parquet")
    with open_source(tmp_path / "n.parquet", "parquet", FOLLOWS, _unexpected, 3) as source:
        first, second = source.rows_after(0)
        assert isinstance(first, NumericIdFollowEdges)
        assert (first.followers.tolist(), first.followed.tolist(), first.rows_read) == ([1, 2, 3], [9, 9, 9], 3)
        assert (isinstance(second, NumericIdFollowEdges), second.rows_read) == (True, 5)
        [remaining] = source.rows_after(4)
        assert (remaining.followers.tolist() if isinstance(remaining, NumericIdFollowEdges) else None) == [5]


@pytest.mark.parametrize("number", [-1, 9, 2**63])
def test_column_with_an_unusual_number_is_validated_row_by_row(number: int, tmp_path: Path) -> None:
    type_ = pa.uint64() if number > 0 else pa.int64()
    pq.write_table(
        pa.table({"follower": pa.array([1, number], type_), "followed": pa.array([9, 9], type_)}),
        tmp_path / "n.parquet",
    )
    pairs, rejected, _ = read(tmp_path / "n.parquet", "parquet")
    assert [(str(a), str(b)) for a, b in pairs] == [("1", "9"), (str(number), "9")]
    assert rejected == ([(2, "An account can't follow itself.")] if number == 9 else [])


def _unexpected(line: int, reason: str) -> None:
    raise AssertionError((line, reason))


INVALID_FILES: dict[str, tuple[bytes, str]] = {
    "a.csv": (b"user,whom\nu1,nova\n", "The header has user, whom; follower and followed are required."),
    "none.csv": (b"", "The header has nothing; follower and followed are required."),
    "binary.ndjson": (
        bytes(range(1, 256)).replace(b"\n", b"").replace(b"\r", b"") * 300,
        "A line has 65,536 or more characters",
    ),
    "cut.csv.gz": (gzip.compress(csv_of(PAIRS * 999))[:-30], "The file can't be decompressed"),
    "spoilt.csv.gz": (gzip.compress(csv_of(PAIRS))[:-6] + b"123456", "The file can't be decompressed"),
    "cut.ndjson.zst": (_compressed(ndjson_of(PAIRS * 99))[:-30], "The file can't be"),
    "cut.parquet": (parquet_of(PAIRS)[:-30], "Not a Parquet file, or truncated"),
    "table.csv": (parquet_of(PAIRS), "The data is Parquet; use --form parquet"),
    "text.parquet": (csv_of(PAIRS), "Not a Parquet file, or truncated"),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_invalid_file_is_rejected_with_the_reason(name: str, tmp_path: Path) -> None:
    content, reason = INVALID_FILES[name]
    with pytest.raises(BadImport, match=reason):
        read(write_file(tmp_path, name, content), form_of(name))


def test_wrong_parquet_columns_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"follower": ["u1"], "whom": ["nova"]}), tmp_path / "a.parquet")
    with pytest.raises(BadImport, match="The file has the columns follower, whom; followed is missing"):
        read(tmp_path / "a.parquet", "parquet")
    pq.write_table(pa.table({"follower": [1.5], "followed": ["nova"]}), tmp_path / "b.parquet")
    with pytest.raises(BadImport, match="Column follower has type double; it must be text or whole numbers"):
        read(tmp_path / "b.parquet", "parquet")


def test_standard_input_is_text_and_never_parquet(tmp_path: Path) -> None:
    file = write_file(tmp_path, "graph", gzip.compress(csv_of(PAIRS)))
    with file.open("rb") as stream:
        assert read(stream, "csv")[0] == PAIRS
    with file.open("rb") as stream, pytest.raises(BadImport, match="standard input"):
        read(stream, "parquet")


def test_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "graph.csv"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[gzip.compress(csv_of(PAIRS))])
    writer.start()
    assert read(pipe, "csv")[0] == PAIRS
    writer.join()
    with pytest.raises(BadImport, match="pipes"):
        read(pipe, "parquet")


@pytest.mark.parametrize("name", ["graph", "graph.gz", "graph.xlsx", ".csv.zst.old"])
def test_unknown_file_suffix_is_rejected(name: str) -> None:
    with pytest.raises(BadImport, match="set --form"):
        form_of(name)


@pytest.mark.parametrize("name", ["graph.parquet.gz", "graph.Parquet.ZST"])
def test_compressed_parquet_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(BadImport, match=f"{name} is a compressed Parquet file"):
        form_of(name)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)), max_size=9))
def test_csv_and_ndjson_give_the_same_rows(pairs: list[Pair]) -> None:
    results = [
        read(io.BufferedReader(io.BytesIO(encode(pairs))), format_)[:2]
        for format_, encode in (("csv", csv_of), ("ndjson", ndjson_of))
    ]
    assert results[0][0] == results[1][0]
    assert [reason for _, reason in results[0][1]] == [reason for _, reason in results[1][1]]


@pytest.mark.parametrize("name", ["graph.csv", "graph.csv.gz", "graph.ndjson.zst", "graph.parquet"])
def test_interrupted_reader_closes_without_error(tmp_path: Path, name: str) -> None:
    """Ctrl-C can stop an import while it writes rows; the file is then closed before the reader."""
    file = write_file(tmp_path, name, FORMATS[name](PAIRS))
    with open_source(file, form_of(name), FOLLOWS, lambda line, reason: None, 2) as source:
        rows = source.rows_after(0)
        assert next(rows).rows_read == 2
    assert isinstance(rows, Generator)
    rows.close()
