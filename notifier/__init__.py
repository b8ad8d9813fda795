"""Celebrity mention notifications: from one mention to the tabs and phones of its audience."""
