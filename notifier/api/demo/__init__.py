"""The demo's own routes and traffic."""
