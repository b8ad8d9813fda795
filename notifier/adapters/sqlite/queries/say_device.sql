-- Registers or removes a device. The higher rank wins. At the same time a removal wins, and then the higher member.
INSERT INTO devices (device, platform, member, at, told)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (device) DO UPDATE
SET platform = excluded.platform, member = excluded.member, at = excluded.at, told = excluded.told
WHERE (excluded.at, excluded.told IS NULL, excluded.member) > (devices.at, devices.told IS NULL, devices.member)
