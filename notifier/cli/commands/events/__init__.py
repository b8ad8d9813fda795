"""Commands that send what upstream services send."""
