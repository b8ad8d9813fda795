// What the settings say, loaded with them. A page's own `words` count here, too.

export const SETTINGS_WORDS = {
  settingsLoading: "Loading settings",
  volume: "Show me",
  mentions: "Tell my followers when I’m mentioned",
  mentionsBy: { all: "By anybody", followed: "By people I follow", verified: "By verified accounts", none: "By nobody" },
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
