// Requests to the service. The page's demo token is sent in a header, never in a URL.

const token = document.querySelector("meta[name=demo-token]").content;
const RETRY_DELAY = 1_000;
const MAX_SILENCE = 8_000; // the service sends something every 6 s at least: a longer silence means a dead connection

async function request(method, path, body, signal) {
  const headers = { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store", signal });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Error(problem.detail || problem.title || `The service answered ${response.status}.`);
}

export const requestJson = async (method, path, body) => (await request(method, path, body)).json();

const isVisible = () => document.visibilityState === "visible";

const untilVisible = () =>
  new Promise((resolve) => {
    const check = () => isVisible() && (document.removeEventListener("visibilitychange", check), resolve());
    document.addEventListener("visibilitychange", check);
    check();
  });

// Calls `onSnapshot(snapshot)` for each snapshot, and `onConnection(connected)` with each event and failure. Never returns.
// A hidden page closes its connection, because a browser allows six per host, and reconnects when it is visible.
export async function followSystem(onSnapshot, onConnection) {
  for (;;) {
    await untilVisible();
    const abort = new AbortController();
    document.addEventListener("visibilitychange", () => isVisible() || abort.abort(), { signal: abort.signal });
    let timer = setTimeout(() => abort.abort(), MAX_SILENCE);
    try {
      const response = await request("GET", "/v1/system/stream", null, abort.signal);
      let rest = "";
      for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), MAX_SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const [event, data] = block.split("\n");
          if (event.startsWith(":")) continue; // a keep-alive: the snapshot is slow, but the connection is not lost
          const isSnapshot = event === "event: system";
          onConnection(isSnapshot);
          if (isSnapshot) onSnapshot(JSON.parse(data.slice(6)));
        }
      }
    } catch {
      // retried below
    }
    clearTimeout(timer);
    abort.abort();
    if (!isVisible()) continue;
    onConnection(false);
    await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY));
  }
}
