-- Old rows of one shard in the key's order: every slot of every block has each window's times.
INSERT INTO inbox
SELECT blocks.value, times.inbox_window, slots.value, times.opened_at, 'mention:atlas', times.opened_at, 'p1', :members
FROM json_each(:blocks) AS blocks
CROSS JOIN (SELECT DISTINCT inbox_window FROM times ORDER BY inbox_window) AS windows
CROSS JOIN json_each(:slots) AS slots
CROSS JOIN times ON times.inbox_window = windows.inbox_window
