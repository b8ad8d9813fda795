// <notifier-inbox>: a user's inbox as one element. No build step, no dependencies, no inline style or script.
//
//   <script type="module" src="/static/notifier-inbox.js"></script>
//   <notifier-inbox src="https://notifier.example" theme="auto" lang="en"></notifier-inbox>
//
// Properties: `token` (a new token means another user: everything shown is dropped), `getToken` (called for a fresh
// token of the same user when the server answers 401), `texts` (see texts.js). Events: `badge` {count, more}; `open`
// with the item, cancelable: the item is marked as read unless the event was canceled. The element fills its given
// height and scrolls inside.

import { NotifierInbox } from "./notifier-inbox/element.js";

if (!customElements.get("notifier-inbox")) customElements.define("notifier-inbox", NotifierInbox);
