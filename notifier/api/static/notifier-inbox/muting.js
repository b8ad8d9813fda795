// Mutes an account or moves the account to the digest, on the server and on screen, with undo.

export class Muting {
  constructor(inbox, texts) {
    Object.assign(this, { inbox, texts, lastRequest: Promise.resolve() });
  }

  mute(subject, account, until) {
    const { texts } = this;
    const undo = () => this.showAgain(subject, account, () => ({ muted_until: null }));
    this.hideSubject(subject, () => ({ muted_until: until }), texts.muted(account), [texts.unmute, undo]);
  }

  // Undo restores the former value, which is read before the change. If the read fails, nothing is changed.
  moveToDigest(subject, account) {
    const { texts } = this;
    let before = null;
    const change = async () => {
      before = await this.volume(subject);
      return { volume: "digest" };
    };
    const undo = () => this.showAgain(subject, account, () => before && { volume: before });
    this.hideSubject(subject, change, texts.inDigest(account), [texts.undo, undo]);
  }

  async volume(subject) {
    const { preferences } = await this.inbox.api.preferences();
    return preferences.find((preference) => preference.subject === subject)?.volume ?? "default";
  }

  // `undo` is the label and action of the toast.
  hideSubject(subject, change, text, undo) {
    this.inbox.store.mute(subject);
    this.inbox.render();
    this.update(subject, change, [text, ...undo], undo);
  }

  // Ends the mute or the digest. Earlier bursts do not return.
  showAgain(subject, account, change) {
    const { texts } = this;
    this.update(subject, change, [texts.unmuted(account)], [texts.retry, () => this.showAgain(subject, account, change)]);
  }

  // Sends one request after the other. On two connections, "unmute" could arrive before "mute", and the mute would stay.
  update(subject, change, toast, onError) {
    this.inbox.actions.showToast(...toast);
    this.lastRequest = this.lastRequest.then(() => this.send(subject, change, onError));
  }

  async send(subject, change, onError) {
    const { inbox } = this;
    try {
      const preference = await change();
      if (preference) await inbox.api.updateSubject(subject, preference);
    } catch {
      if (!inbox.closed) inbox.actions.showToast(this.texts.uncertain, ...onError); // the server may have it
    }
    inbox.store.muted.delete(subject);
    if (!inbox.closed) inbox.load(); // rows that opened meanwhile
  }
}
