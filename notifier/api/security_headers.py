"""Headers by which no browser takes an answer for a page, unless it is one of ours."""

NO_PAGE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Unless the answer says otherwise, as our own pages do."""
