// Less of an account: muted from the menu of one of its rows, and heard again.

import { plainName } from "./plain.js";

const DAY = 86_400_000;

export class Quiet {
  constructor(inbox) {
    this.inbox = inbox;
  }

  // For the menu; a row about oneself has none.
  choices({ subject }) {
    const [, name] = /^mention:(.+)$/s.exec(subject) ?? [];
    if (!name) return [];
    const { words } = this.inbox;
    const [account, tomorrow] = [plainName(name), () => new Date(Date.now() + DAY).toISOString()];
    return [
      [words.muteDay(account), () => this.mute(subject, account, tomorrow())],
      [words.mute(account), () => this.mute(subject, account, "forever")],
    ];
  }

  mute(subject, account, until) {
    const { store, words } = this.inbox;
    store.silence(subject);
    this.inbox.show();
    this.prefer(subject, until, words.muted(account), words.unmute, () => this.unmute(subject, account));
  }

  // What opened before doesn't come back.
  unmute(subject, account) {
    this.prefer(subject, null, this.inbox.words.unmuted(account));
  }

  async prefer(subject, until, ...said) {
    const { api, deeds, words } = this.inbox;
    deeds.say(...said);
    try {
      await api.prefer(subject, { muted_until: until });
    } catch {
      if (this.inbox.ended.signal.aborted) return;
      deeds.say(words.notDone);
      this.inbox.load();
    }
  }
}
