"""Follows, activity and tiers, and the inbox rows that a burst writes for its audience."""
