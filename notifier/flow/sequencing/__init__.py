"""From a mention to its burst, and from a retraction to what is left of it."""
