// Mutes and unmutes an account on the server and on screen.

export class Muting {
  constructor(inbox) {
    Object.assign(this, { inbox, answered: Promise.resolve() });
  }

  mute(subject, account, until) {
    const { words } = this.inbox;
    const back = () => this.more(subject, account, () => ({ muted_until: null }));
    this.less(subject, () => ({ muted_until: until }), words.muted(account), [words.unmute, back]);
  }

  // Undo restores the former value, which is read before the change. If the read fails, nothing is changed.
  digest(subject, account) {
    const { words } = this.inbox;
    let before = null;
    const change = async () => {
      before = await this.volume(subject);
      return { volume: "digest" };
    };
    const back = () => this.more(subject, account, () => before && { volume: before });
    this.less(subject, change, words.digested(account), [words.undo, back]);
  }

  async volume(subject) {
    const { preferences } = await this.inbox.api.preferences();
    return preferences.find((said) => said.subject === subject)?.volume ?? "default";
  }

  less(subject, change, said, back) {
    this.inbox.store.silence(subject);
    this.inbox.show();
    this.prefer(subject, change, [said, ...back], back);
  }

  // Rows that opened before do not return.
  more(subject, account, change) {
    this.prefer(subject, change, [this.inbox.words.unmuted(account)], [this.inbox.words.retry, () => this.more(subject, account, change)]);
  }

  // One after the other: on two connections the later could arrive first, and a mute would outlast its end.
  prefer(subject, change, said, unsure) {
    this.inbox.deeds.say(...said);
    this.answered = this.answered.then(() => this.send(subject, change, unsure));
  }

  async send(subject, change, unsure) {
    const { api, deeds, ended, store, words } = this.inbox;
    try {
      const said = await change();
      if (said) await api.prefer(subject, said);
    } catch {
      if (!ended.signal.aborted) deeds.say(words.unsure, ...unsure); // the server may have received it
    }
    store.silenced.delete(subject);
    if (!ended.signal.aborted) this.inbox.load(); // new rows since then
  }
}
