"""What Kafka costs its clients."""
