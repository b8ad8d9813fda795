"""Delivery of a burst's rows: dispatching, slice workers and reconciliation."""
