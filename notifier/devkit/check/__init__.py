"""Black-box check of `notifier demo --headless`: compares stores and API responses with formulas."""
