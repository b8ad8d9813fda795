"""`python -m benchmarks audience`: what it costs to know whom a burst is for, however many there are to choose from."""

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
"""Universes first, while the process is small and its growth shows."""

OF_CLUSTER: Parts = {**universe.OF_CLUSTER, **naming.OF_CLUSTER}
"""What another store changes."""
