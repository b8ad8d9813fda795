"""Reports for operators: overview, previews, audience counts and event status."""
