"""Celebrity mention notifications: from one tweet to the inboxes and phones of millions of followers."""
