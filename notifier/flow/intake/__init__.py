"""From an accepted event to the streams: the gateway, the router and moderation."""
