"""Plans, slices, the ledger and the order in which work is dispatched."""
