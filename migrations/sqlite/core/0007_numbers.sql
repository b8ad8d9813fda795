-- core.db: the first number that nobody has; whoever is given one is given this, and it moves on for ever.

CREATE TABLE numbers (
    book TEXT    NOT NULL PRIMARY KEY,
    free INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO numbers
SELECT
    'members',
    max(
        coalesce((SELECT max(member) + 1 FROM members), 0),
        coalesce((SELECT max(member + count) FROM user_ranges), 0)
    );
