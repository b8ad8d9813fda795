// Texts of the settings, loaded with them. The element's property `texts` overrides these, too.

export const SETTINGS_TEXTS = {
  settingsLoading: "Loading settings",
  volume: "Show me",
  volumes: { all: "Every mention of accounts I follow", first: "Only each account’s first of the day", digest: "One digest a day", off: "Only mentions of me" },
  mentions: "Tell my followers when I’m mentioned",
  mentionsBy: { all: "By anyone", followed: "By people I follow", verified: "By verified accounts", none: "By no one" },
  digest: "Daily digest",
  digestHour: "Time of day",
  alerts: "Alerts",
  push: "Alert me on my devices",
  quietHours: "Quiet hours",
  quietFrom: "From",
  quietTo: "To",
  quietEqual: "Quiet hours must begin and end at different times.",
  timeZone: "Time zone",
  save: "Save",
  cancel: "Cancel",
  saved: "Settings saved",
};
