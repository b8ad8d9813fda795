"""Everything the flow needs from outside, in the flow's words; one port a file, at most five methods each."""
