"""Every benchmark figure, fault and scenario is explained in the documents."""

import re
from pathlib import Path

import pytest

from benchmarks import demo_page as page
from benchmarks import live_latency
from benchmarks.audience import suite as audience
from benchmarks.cassandra import suite as cql
from benchmarks.chaos import cassandra_node_down as ring
from benchmarks.chaos.scenario_runner import SHARING
from benchmarks.fanout import suite as fanout
from benchmarks.kafka import log_throughput as log
from benchmarks.push import suite as push
from notifier.devkit.check.fault_injection import ENGINE_INJECTIONS, INJECTIONS
from tests.repo.repository_files import ROOT

BENCHMARKS, CLUSTER = ((ROOT / "docs" / name).read_text() for name in ("benchmarks.md", "cluster.md"))
EXPLAINED = {name.partition("{")[0] for name in re.findall(r"`([a-z0-9_]+(?:\{[^`]*\})?)`", BENCHMARKS)}


@pytest.mark.parametrize(
    "parts",
    [fanout.PARTS, audience.PARTS, live_latency.PARTS, page.PARTS, cql.PARTS, log.PARTS, push.parts(Path)],
    ids=["fanout", "audience", "live", "page", "cql", "log", "push"],
)
def test_every_benchmark_figure_is_explained(parts: fanout.Parts) -> None:
    figure_names = {figure.partition("{")[0] for _, figures in parts.values() for figure in figures}
    assert figure_names
    assert figure_names - EXPLAINED == set()


def test_every_fault_is_explained() -> None:
    assert [kind for kind in {**INJECTIONS, **ENGINE_INJECTIONS} if f"`{kind}`" not in CLUSTER] == []


def test_every_scenario_is_explained() -> None:
    assert [scenario.NAME for scenario in (*SHARING, ring) if f"| `{scenario.NAME}` |" not in CLUSTER] == []
