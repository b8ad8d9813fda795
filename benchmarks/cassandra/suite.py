"""`python -m benchmarks cql`: rows, pages, range widths, mentions and large bursts, by part."""

from benchmarks.cassandra import bursts as large
from benchmarks.cassandra import mentions, pages, rebuild, rows, widths
from benchmarks.fanout.suite import Parts

PARTS: Parts = {
    "rows": (rows.run, tuple(name for percent in rows.DENSITIES for name in rows.figures_at(percent))),
    "pages": (pages.run, pages.FIGURES),
    "widths": (widths.run, widths.FIGURES),
    "mentions": (mentions.run, ("hot_celebrity_mentions_per_s", "mentions_500_per_s")),
    "rebuild": (rebuild.run, (rebuild.NAME,)),
    "large": (large.run, ("burst_200m_p1_s", "burst_200m_p2_s")),
    "durable": (large.durable, ("burst_200m_p1_durable_s", "burst_200m_p2_durable_s")),
}
"""Each part runs on its own engines."""
