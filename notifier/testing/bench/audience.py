"""`notifier bench audience`: what it costs to know whom a burst is for, however many there are to choose from."""

from notifier.testing.bench import beside, importing, naming, noticing, slices, universe
from notifier.testing.bench.fanout import Parts

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
