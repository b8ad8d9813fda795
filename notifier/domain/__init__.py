"""The rules, pure: no clock, no I/O, one file per word of the vocabulary."""
