"""Live updates for open inbox pages."""
