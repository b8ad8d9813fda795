"""The registration of devices, and its index."""
