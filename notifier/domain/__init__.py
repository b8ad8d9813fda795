"""Pure domain rules: no clock, no I/O."""
