-- Registers or removes a device. The later time wins; on a tie a removal wins, and then the higher member.
INSERT INTO devices (device, platform, member, at, registration)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (device) DO UPDATE
SET platform = excluded.platform, member = excluded.member, at = excluded.at, registration = excluded.registration
WHERE (excluded.at, excluded.registration IS NULL, excluded.member)
    > (devices.at, devices.registration IS NULL, devices.member)
