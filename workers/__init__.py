"""The worker pools: what runs in which, and the hosts that run it."""
