// Less of an account: muted from the menu of one of its rows, and heard again.

import { plainName } from "./plain.js";

const DAY = 86_400_000;

export class Quiet {
  constructor(inbox) {
    Object.assign(this, { inbox, answered: Promise.resolve() });
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
    this.prefer(subject, account, until, [words.muted(account), words.unmute, () => this.unmute(subject, account)]);
  }

  // What opened before doesn't come back.
  unmute(subject, account) {
    this.prefer(subject, account, null, [this.inbox.words.unmuted(account)]);
  }

  // One after the other: on two connections the later could arrive first, and a mute would outlast its end.
  prefer(subject, account, until, said) {
    this.inbox.deeds.say(...said);
    this.answered = this.answered.then(() => this.send(subject, account, until));
  }

  async send(subject, account, until) {
    const { api, deeds, ended, store, words } = this.inbox;
    try {
      await api.prefer(subject, { muted_until: until });
    } catch {
      if (!ended.signal.aborted) deeds.say(words.unsure, words.unmute, () => this.unmute(subject, account)); // it may have been heard
    }
    store.silenced.delete(subject);
    if (!ended.signal.aborted) this.inbox.load(); // what came meanwhile
  }
}
