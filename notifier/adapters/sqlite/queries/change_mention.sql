-- The change with the higher version wins, regardless of arrival order.
UPDATE mentions SET blob = :blob, version = :version
WHERE subject = :subject AND seq = :seq AND source = :source AND id = :id AND version < :version
