"""Worker processes, which run slices from the queues of the pools."""
