"""`notifier bench inbox`: what opening the inbox costs, beside a bare handler and what a team would write instead."""
