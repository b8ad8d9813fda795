"""`notifier bench push`: what an alert costs its sender, on the transport that all senders share and above it."""
