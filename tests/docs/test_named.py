"""What a bench measures, a fault breaks and a scenario tries is named in the pages that people read."""

import re
from pathlib import Path

import pytest

from notifier.testing.bench import audience, fanout, live, page
from notifier.testing.bench.cluster import ring
from notifier.testing.bench.cluster.scenarios import SHARING
from notifier.testing.bench.cql import parts as cql
from notifier.testing.bench.log import records as log
from notifier.testing.bench.push import parts as push
from notifier.testing.faults import STRIKES, STRIKES_ON_ENGINES
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
