"""What the tweet service and other upstream services send, validated."""
