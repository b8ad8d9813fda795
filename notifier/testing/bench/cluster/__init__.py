"""`notifier bench cluster`: the cluster profile is broken on purpose, one way after the other, under load."""
