"""What the log on Kafka costs its clients, ours and others', measured on a broker of the bench's own."""
