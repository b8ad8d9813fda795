"""What ships for tests and trials: every port in memory, a clock to set by hand, the simulator and the oracle."""
