// Texts of the settings, loaded with them. The page's `words` override these, too.

export const SETTINGS_WORDS = {
  settingsLoading: "Loading settings",
  volume: "Show me",
  mentions: "Tell my followers when I’m mentioned",
  mentionsBy: { all: "By anyone", followed: "By people I follow", verified: "By verified accounts", none: "By no one" },
  volumes: { all: "Every mention of accounts I follow", first: "Only each account’s first of the day", digest: "One digest a day", off: "Only mentions of me" },
  digest: "Daily digest",
  digestHour: "Comes at",
  alerts: "Alerts",
  push: "Alert me on my devices",
  quiet: "Quiet hours",
  quietFrom: "From",
  quietTo: "To",
  quietSame: "Quiet hours begin and end at different times.",
  timeZone: "Time zone",
  save: "Save",
  cancel: "Cancel",
  saved: "Settings saved",
};
