"""Routes and generated traffic of the demo."""
