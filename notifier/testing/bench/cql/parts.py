"""`notifier bench cql`: every figure of rows, pages, block sizes, mentions and large bursts on Cassandra, by part."""

from notifier.testing.bench.cql import large, mentions, pages, rebuild, rows, sizes
from notifier.testing.bench.fanout import Parts

PARTS: Parts = {
    "rows": (
        rows.run,
        (
            *(f"cql_{what}{{{kind}}}" for kind in ("block", "member") for what in ("ratio", "cpu_ratio")),
            *(f"cql_vs_stock_{way}{at}" for at in ("", "{5%}") for way in ("single", "batch")),
            *(f"deliveries_per_s{{{percent}%}}" for percent in rows.DENSITIES),
        ),
    ),
    "pages": (
        pages.run,
        tuple(f"newest_20_{what}{{{name}}}" for name in pages.LAYOUTS for what in ("us", "p99_ms")),
    ),
    "sizes": (sizes.run, sizes.FIGURES),
    "mentions": (mentions.run, ("hot_celebrity_mentions_per_s", "mentions_500_per_s")),
    "rebuild": (rebuild.run, (rebuild.NAME,)),
    "large": (large.run, ("burst_200m_p1_s", "burst_200m_p2_s")),
    "durable": (large.durable, ("burst_200m_p1_durable_s", "burst_200m_p2_durable_s")),
}
"""Each on engines of its own."""
