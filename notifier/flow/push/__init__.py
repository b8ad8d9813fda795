"""From rows to alerts: load, suppress, catch up, cap, rate, send and record."""
