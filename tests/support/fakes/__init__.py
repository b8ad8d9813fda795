"""In-memory implementations of every port, for one thread; they pass the ports' contracts."""
