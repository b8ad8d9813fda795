// Texts and formats that several parts of the page use.

// The texts are English; numbers and times use the visitor's locale.
const locales = [...navigator.languages];
const integer = new Intl.NumberFormat(locales, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(locales, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat(locales, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => integer.format(value);
export const compactNumber = (value) => (value < 10_000 ? integer : compact).format(value);
export const seconds = (value) => `${(value < 100 ? tenths : integer).format(value)} s`;
export const timeOfDay = (date = new Date()) => date.toLocaleTimeString(locales, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// A throttle without a rate stops its tier.
export const isPause = ({ rate }) => rate === null;

export const SHARD_STATES = { planned: "planned", in_flight: "in flight", done: "delivered", parked: "parked", pulled: "left to the pull path", dead: "dead" };
export const USER_STATES = { delivered: "delivered", suppressed: "suppressed", parked: "parked", pulled: "pulled", dead: "dead", in_flight: "in flight" };
export const TIERS = { p0: "VIPs", p1: "active today", p2: "active this month" };
export const PLATFORMS = { apns: "APNs", fcm: "FCM", web: "Web Push" };

export const USERS = { vip: "VIP", active: "Active", occasional: "Occasional", away: "Away" };
export const INBOX_TEXTS = {
  vip: "A VIP who was active this week: P0. The row is written first, and the phone rings.",
  active: "Active today: P1. The row is written within seconds.",
  occasional: "Active this month: P2, bulk. The row may be late or parked, but the inbox shows the burst anyway.",
  away: "Away for a month: no row is written. The inbox is computed on open, and shows the same bursts.",
};
export const PHONE_TEXTS = {
  vip: "Rings first, within seconds.",
  active: "Rings right after the VIPs.",
  occasional: "Rings for mentions of the user. Mentions of celebrities are bulk here, and cause no alert.",
  away: "Rings for mentions of the user. Mentions of celebrities have no row here, and cause no alert.",
};
