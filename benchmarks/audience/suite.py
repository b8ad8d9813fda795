"""`python -m benchmarks audience`: imports, tiers, activity and the directory, by part."""

from benchmarks.audience import activity as noticing
from benchmarks.audience import compare as beside
from benchmarks.audience import directory as naming
from benchmarks.audience import follow_import as importing
from benchmarks.audience import large_universe as universe
from benchmarks.fanout import slices
from benchmarks.fanout.suite import Parts

PARTS: Parts = {
    **universe.PARTS,
    **slices.PARTS,
    **naming.PARTS,
    **noticing.PARTS,
    **beside.PARTS,
    **importing.PARTS,
}
"""Universes come first, while the process is small and its growth is visible."""

OF_CLUSTER: Parts = {**universe.OF_CLUSTER, **naming.OF_CLUSTER}
"""Parts that use the cluster profile's store."""
