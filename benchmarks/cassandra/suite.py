"""`python -m benchmarks cql`: rows, pages, range widths, mentions and large bursts, by part."""

from benchmarks.cassandra import (
    large_bursts,
    page_reads,
    pull_index_rebuild,
    range_widths,
    row_writes,
    sequencing_coordinator,
)
from benchmarks.fanout.suite import Parts

PARTS: Parts = {
    "rows": (
        row_writes.run,
        tuple(name for percent in row_writes.DENSITIES for name in row_writes.figures_at(percent)),
    ),
    "pages": (page_reads.run, page_reads.FIGURES),
    "widths": (range_widths.run, range_widths.FIGURES),
    "mentions": (sequencing_coordinator.run, ("hot_celebrity_mentions_per_s", "mentions_500_per_s")),
    "rebuild": (pull_index_rebuild.run, (pull_index_rebuild.NAME,)),
    "large": (large_bursts.run, ("burst_200m_p1_s", "burst_200m_p2_s")),
    "durable": (large_bursts.durable, ("burst_200m_p1_durable_s", "burst_200m_p2_durable_s")),
}
"""Each part runs on its own engines."""
