-- What is said of a device: it stands unless what stands of it ranks higher. Of two that were said at once the one that it is
-- gone does, and then the one of the higher member.
INSERT INTO devices (device, platform, member, at, told)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (device) DO UPDATE
SET platform = excluded.platform, member = excluded.member, at = excluded.at, told = excluded.told
WHERE (excluded.at, excluded.told IS NULL, excluded.member) > (devices.at, devices.told IS NULL, devices.member)
