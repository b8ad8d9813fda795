"""Import checkpoint: the reject file is complete after any crash."""

import json
import os
from pathlib import Path

import pytest

from notifier.cli.commands.import_.loader import ImportCheckpoint, Rejects
from notifier.domain.errors import BadImport, DiskFull
from tests.support.full_disk import limited_file_size


def rejected_lines(path: Path) -> list[int]:
    return [json.loads(line)["line"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("torn", [b'{"line": 3, "rea', b'{"line": 3, "reason": "No', b"\0" * 40, b"\xff\xfe"])
def test_torn_line_is_written_again_and_no_line_twice(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rejects.ndjson"
    path.write_bytes(b'{"line": 2, "reason": "No."}\n' + torn)
    reject = Rejects(path)
    for line in (2, 3, 5):
        reject(line, "No.")
    reject.sync()
    reject.close()
    assert (rejected_lines(path), reject.count) == ([2, 3, 5], 3)


def test_full_disk_is_reported_and_earlier_rejects_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rejects.ndjson"
    first = Rejects(path)
    first(2, "No.")
    with limited_file_size(40), pytest.raises(DiskFull, match=r"rejects\.ndjson: "):
        first(3, "No.")
    first.close()
    second = Rejects(path)
    for line in (2, 3, 4):
        second(line, "No.")
    second.close()
    assert (rejected_lines(path), second.count) == ([2, 3, 4], 3)


def test_invalid_reject_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadImport, match=r"Can't write rejected rows to .*nowhere/no\.ndjson: No such file"):
        Rejects(tmp_path / "nowhere" / "no.ndjson")


def test_import_from_a_pipe_is_not_resumed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "graph.csv")
    (tmp_path / "real.csv").touch()
    pipe, real = (ImportCheckpoint.of(tmp_path, "followers", tmp_path / name) for name in ("graph.csv", "real.csv"))
    for checkpoint in (pipe, real):
        with checkpoint.locked():
            checkpoint.begin("csv")
    assert (pipe.can_resume("csv"), real.can_resume("csv")) == (False, True)
