"""The JSON of requests and responses."""
