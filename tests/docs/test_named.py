"""What a bench measures, a fault breaks and a scenario tries is named in the pages that people read."""

import re
from pathlib import Path

import pytest

from benchmarks import demo_page as page
from benchmarks import live
from benchmarks.audience import suite as audience
from benchmarks.cassandra import suite as cql
from benchmarks.chaos import node_down as ring
from benchmarks.chaos.scenarios import SHARING
from benchmarks.fanout import suite as fanout
from benchmarks.kafka import records as log
from benchmarks.push import suite as push
from notifier.devkit.check.faults import STRIKES, STRIKES_ON_ENGINES
from tests.repo.sources import ROOT

BENCHMARKS, CLUSTER = ((ROOT / "docs" / name).read_text() for name in ("benchmarks.md", "cluster.md"))
TOLD = {name.partition("{")[0] for name in re.findall(r"`([a-z0-9_]+(?:\{[^`]*\})?)`", BENCHMARKS)}


@pytest.mark.parametrize(
    "parts",
    [fanout.PARTS, audience.PARTS, live.PARTS, page.PARTS, cql.PARTS, log.PARTS, push.parts(Path)],
    ids=["fanout", "audience", "live", "page", "cql", "log", "push"],
)
def test_every_figure_is_explained_where_figures_are(parts: fanout.Parts) -> None:
    brings = {figure.partition("{")[0] for _, figures in parts.values() for figure in figures}
    assert brings
    assert brings - TOLD == set()


def test_every_fault_is_explained() -> None:
    assert [kind for kind in {**STRIKES, **STRIKES_ON_ENGINES} if f"`{kind}`" not in CLUSTER] == []


def test_every_scenario_is_explained() -> None:
    assert [each.NAME for each in (*SHARING, ring) if f"| `{each.NAME}` |" not in CLUSTER] == []
