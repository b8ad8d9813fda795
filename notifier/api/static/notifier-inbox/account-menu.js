// Menu choices of a row that concern its account: mute it, or move it to the daily digest.

import { ACCOUNT_TEXTS } from "./account-texts.js";
import { sanitizeName } from "./sanitize.js";

const DAY = 86_400_000;

export class AccountMenu {
  constructor(inbox) {
    this.inbox = inbox;
    this.texts = { ...ACCOUNT_TEXTS, ...inbox.texts };
  }

  // Rows about the user and digests have none.
  choices({ subject }) {
    const [, name] = /^mention:(.+)$/s.exec(subject) ?? [];
    if (!name) return [];
    const { texts } = this;
    const account = sanitizeName(name);
    const tomorrow = () => new Date(Date.now() + DAY).toISOString();
    return [
      [texts.muteDay(account), () => this.run("mute", subject, account, tomorrow())],
      [texts.mute(account), () => this.run("mute", subject, account, "forever")],
      [texts.toDigest(account), () => this.run("moveToDigest", subject, account)],
    ];
  }

  async run(method, ...parameters) {
    try {
      const { Muting } = await import("./muting.js");
      this.muting ??= new Muting(this.inbox, this.texts);
    } catch {
      return this.inbox.actions.showToast(this.inbox.texts.actionFailed);
    }
    this.muting[method](...parameters);
  }
}
