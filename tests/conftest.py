"""What every test of the project shares: how hypothesis looks for counterexamples."""

from hypothesis import settings

# A busy machine makes slow examples, not wrong ones: pytest-timeout bounds a test, never a single example.
settings.register_profile("notifier", deadline=None, print_blob=True)
settings.load_profile("notifier")
