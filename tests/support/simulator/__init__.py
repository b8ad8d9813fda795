"""The simulator: the whole system in one thread over the in-memory ports, with time, order and death in its hands.

A run is a script of inputs and faults, and a seed that orders everything else; the same script always ends the same.
"""
