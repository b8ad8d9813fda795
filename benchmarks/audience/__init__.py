"""Benchmarks of audiences: sets of followers, tiers, imports and the directory."""
