-- core.db: whose followers alone may see a burst, '' for a public one; so that a page passes those that aren't for its
-- viewer without counting them.

ALTER TABLE bursts ADD COLUMN restricted_to TEXT NOT NULL DEFAULT '';
