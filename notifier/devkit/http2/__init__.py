"""An HTTP/2 server that can misbehave on purpose."""
