"""Files of rows as platforms export them: what is in them, and why a row can't be taken."""
