"""Who may call: tokens, keys, scopes and origins."""
