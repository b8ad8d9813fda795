"""Redis as an engine: the Valkey server that comes in a wheel."""
