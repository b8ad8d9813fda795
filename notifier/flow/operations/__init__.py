"""What operators look at: overview, previews, counts."""
