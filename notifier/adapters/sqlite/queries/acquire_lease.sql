-- Takes a free or expired lease, or renews the owner's own. Changes no row while another owner holds it.
INSERT INTO leases (name, owner, until)
VALUES (:name, :owner, :until)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE leases.owner = excluded.owner OR leases.until <= :now
