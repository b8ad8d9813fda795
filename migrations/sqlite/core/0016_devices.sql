-- core.db: devices, each with what ranks highest of all that was said of it: whose it is, and the address as it was registered,
-- or that it is nobody's (`told` is NULL). Milliseconds since 1970. Rows go 270 days after their moment, as the next are written.

CREATE TABLE devices (
    device   TEXT    NOT NULL PRIMARY KEY,
    platform TEXT    NOT NULL,
    member   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    told     BLOB
);

-- By member, so that a block's are one range.
CREATE INDEX devices_of_platform ON devices (platform, member) WHERE told IS NOT NULL;
CREATE INDEX devices_by_moment ON devices (at);
