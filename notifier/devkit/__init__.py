"""Development kit: demo users, fake push providers, local engines, and the black-box check."""
