-- Takes a lease that is free or has ended, or renews the owner's own; changes no row while it is another's.
INSERT INTO leases (name, owner, until)
VALUES (:name, :owner, :until)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE leases.owner = excluded.owner OR leases.until <= :now
