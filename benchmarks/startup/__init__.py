"""What `notifier up` costs until it is ready, by the way in which it starts its roles."""
