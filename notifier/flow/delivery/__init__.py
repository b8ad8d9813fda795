"""From a plan to rows: dispatch, work on slices, reconciliation."""
