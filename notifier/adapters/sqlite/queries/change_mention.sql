-- Of two changes of a mention that of the higher version stands, in whatever order they come.
UPDATE mentions SET blob = :blob, version = :version
WHERE subject = :subject AND seq = :seq AND source = :source AND id = :id AND version < :version
