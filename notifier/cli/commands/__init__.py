"""Commands of `notifier`: one module or package each."""
