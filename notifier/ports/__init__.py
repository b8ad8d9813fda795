"""Interfaces of the external systems that the flow uses: contracts for adapters."""
