"""What an alert costs its sender, and what alerts promise."""
