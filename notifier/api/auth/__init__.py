"""Authentication and authorization: tokens, service keys, scopes and CORS."""
