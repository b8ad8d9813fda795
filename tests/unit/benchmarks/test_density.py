"""Density benchmark: former rows reach the same members, and each writer has a curve."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from benchmarks.fanout.delivery_by_density import DENSITIES, FORMER_MIN_SHARED, FORMER_TABLE, FormerRows, names
from benchmarks.fanout.row_and_snapshot_writes import opened
from benchmarks.report.density_plot import curves, density_plot, density_words
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, SHARD_BLOCKS, WHOLE_BLOCK_SLOT, from_offsets
from notifier.domain.ids import BurstKey
from tests.support.domain_examples import NOON, OF_NOVA


def spread(rate: float) -> Mapping[str, object]:
    return {"min": rate, "median": rate, "max": rate, "unit": "deliveries/s", "n": 3}


ENVELOPE = {
    "checks": [{"name": "density_gain{0.5%}"}, {"name": "density_gain{25%}"}],
    "ours": {"density_gain{0.5%}": spread(2e6), "density_gain{25%}": spread(2e7)},
    "baseline": {
        "density_gain{0.5%}": spread(2e5),
        "density_gain{25%}": spread(1e7),
        "density_lean{0.5%}": spread(2.2e6),
        "density_lean{25%}": spread(2.1e7),
        "density_zadd{0.5%}": spread(7e4),
    },
}


def test_former_rows_reach_the_same_members(tmp_path: Path) -> None:
    many, few = [*range(FORMER_MIN_SHARED)], [BLOCK_MEMBERS + 5, BLOCK_MEMBERS + 9]
    files = Files.at(tmp_path)
    files.migrate()
    with files.inboxes[3].write() as c:
        c.execute(FORMER_TABLE)
    FormerRows(files, opened(BurstKey(OF_NOVA, 1), NOON), {3: from_offsets([*many, *few])}).write()
    with files.inboxes[3].read() as c:
        rows = c.execute("SELECT block, slot, members FROM former_inbox ORDER BY block, slot").fetchall()
    files.close()
    first = 3 * SHARD_BLOCKS
    [(block, slot, members), *single] = rows
    assert (block, slot) == (first, WHOLE_BLOCK_SLOT)
    assert np.unpackbits(np.frombuffer(members, dtype=np.uint8), bitorder="little").nonzero()[0].tolist() == many
    assert single == [(first + 1, 5, None), (first + 1, 9, None)]


def test_every_density_has_the_same_figures() -> None:
    assert len(names()) == 4 * len(DENSITIES)
    assert "density_gain{0.5%}" in names()


def test_writer_measured_at_two_densities_has_a_curve() -> None:
    assert [curve.name for curve in curves(ENVELOPE)] == ["ours", "leanest writer", "previous rows"]
    assert curves(ENVELOPE)[0].points == [(0.5, 2e6), (25.0, 2e7)]


def test_density_plot_has_a_text_alternative() -> None:
    assert ElementTree.fromstring(density_plot(ENVELOPE)).tag.endswith("svg")
    assert "ours: 2,000,000 at 0.5 %, 20,000,000 at 25 %" in density_words(ENVELOPE)
    assert density_plot({"checks": [], "ours": {}, "baseline": {}}) == ""
