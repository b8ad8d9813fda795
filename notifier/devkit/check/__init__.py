"""Check of `notifier demo --headless`: compares stores, alerts and API responses with formulas."""
