"""Pure domain rules: no clock, no I/O, one module per concept of the glossary."""
