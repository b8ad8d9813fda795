// Menu actions of a row: mute its account, move it to the daily digest, and undo either.

import { plainName } from "./plain.js";

const DAY = 86_400_000;

export class Quiet {
  constructor(inbox) {
    this.inbox = inbox;
  }

  // Menu choices; rows about the user and digests have none.
  choices({ subject }) {
    const [, name] = /^mention:(.+)$/s.exec(subject) ?? [];
    if (!name) return [];
    const { words } = this.inbox;
    const [account, tomorrow] = [plainName(name), () => new Date(Date.now() + DAY).toISOString()];
    return [
      [words.muteDay(account), () => this.act("mute", subject, account, tomorrow())],
      [words.mute(account), () => this.act("mute", subject, account, "forever")],
      [words.digestOf(account), () => this.act("digest", subject, account)],
    ];
  }

  async act(what, ...about) {
    try {
      const { Muting } = await import("./muting.js");
      this.muting ??= new Muting(this.inbox);
    } catch {
      return this.inbox.deeds.say(this.inbox.words.notDone);
    }
    this.muting[what](...about);
  }
}
