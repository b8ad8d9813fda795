"""Sequencing of mentions into bursts, publishing of bursts, and settlement of retractions."""
