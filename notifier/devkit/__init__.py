"""Development kit: demo users, fake push providers, local engines, and checks of a service."""
