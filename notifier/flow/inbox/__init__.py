"""Opening the inbox: pages and badges from caches that are proved current, and from the store where they are not."""
