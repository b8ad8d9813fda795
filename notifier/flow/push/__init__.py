"""Push notifications: load, suppress, catch up, cap, rate, send and record."""
