"""HTTP/2 test server that can misbehave on purpose."""
