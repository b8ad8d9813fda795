"""The check of `notifier demo --headless`: a run is judged from outside, by what the stores and the API return."""
