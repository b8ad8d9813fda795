"""Who follows whom, who is active, and which rows a burst writes for them."""
