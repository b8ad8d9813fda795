"""What opening the inbox costs."""
