"""RabbitMQ as an engine: Debian's package, where it is installed; nothing fetches it."""
