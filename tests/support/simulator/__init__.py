"""Simulates the whole system in one thread, with controlled time, order and crashes.

A run is a script of inputs and faults plus a seed that decides everything else. The same script always ends the same.
"""
