"""An HTTP/2 server for tests, trials and benches: fast, on the loopback alone, and as ill-behaved as it is told."""
