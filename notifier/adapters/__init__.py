"""The technologies behind the ports: one folder each, unaware of each other, chosen in notifier.profiles alone."""
