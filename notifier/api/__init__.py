"""The HTTP edge: events come in, people read their tab; every refusal is a problem with a stable code."""
