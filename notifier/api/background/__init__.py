"""What the API process does between requests: batches, limits, reports."""
