"""Exhaustive interleavings of an inbox that is opened, a writer and a fault."""
