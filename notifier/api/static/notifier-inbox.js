// <notifier-inbox>: a person's notification tab as one element. No build step, no dependencies, no inline style or script.
//
//   <script type="module" src="/static/notifier-inbox.js"></script>
//   <notifier-inbox src="https://notifier.example" theme="auto" lang="en"></notifier-inbox>
//
// Properties: `token` (another token means another person: everything shown is dropped), `getToken` (asked for a fresh token of the
// same person when the server answers 401), `words` (see words.js). Events: `badge` {count, more}; `open` with the item, cancelable:
// the item is marked as read unless it was cancelled. It fills the height it is given and scrolls inside.

import { NotifierInbox } from "./notifier-inbox/element.js";

if (!customElements.get("notifier-inbox")) customElements.define("notifier-inbox", NotifierInbox);
