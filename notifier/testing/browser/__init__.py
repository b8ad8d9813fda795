"""Pages as a real browser shows them. Needs the development environment: nothing else that ships imports playwright."""
