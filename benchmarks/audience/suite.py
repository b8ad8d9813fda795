"""`python -m benchmarks audience`: imports, tiers, activity and the directory, by part."""

from benchmarks.audience import (
    activity_tracking,
    audience_design_comparison,
    plans_and_snapshots_by_size,
    user_directory,
)
from benchmarks.audience import follow_import as importing
from benchmarks.fanout import worker_memory
from benchmarks.fanout.suite import Parts

PARTS: Parts = {
    **plans_and_snapshots_by_size.PARTS,
    **worker_memory.PARTS,
    **user_directory.PARTS,
    **activity_tracking.PARTS,
    **audience_design_comparison.PARTS,
    **importing.PARTS,
}
"""Universes come first, while the process is small and its growth is visible."""

OF_CLUSTER: Parts = {**plans_and_snapshots_by_size.OF_CLUSTER, **user_directory.OF_CLUSTER}
"""Parts that use the cluster profile's store."""
