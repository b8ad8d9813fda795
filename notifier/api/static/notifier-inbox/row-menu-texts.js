// Texts of a row's menu, loaded with it. The element's property `texts` overrides these, too.

export const ROW_MENU_TEXTS = {
  markRead: "Mark as read",
  markUnread: "Mark as unread",
  hide: "Hide",
  muteDay: (account) => `Mute @${account} for a day`,
  mute: (account) => `Mute @${account}`,
  muted: (account) => `@${account} is muted`,
  toDigest: (account) => `Only in my daily digest: @${account}`,
  inDigest: (account) => `@${account} is now in your daily digest`,
  unmute: "Unmute",
  unmuted: (account) => `New mentions of @${account} appear here again`,
};
