// Requests to the service. The page's demo token is sent in a header, never in a URL.

const token = document.querySelector("meta[name=demo-token]").content;
const AGAIN = 1_000;
const SILENCE = 8_000; // there is a snapshot a second: a connection silent for so long is dead

async function request(method, path, body, signal) {
  const headers = { Authorization: `Bearer ${token}`, ...(body ? { "Content-Type": "application/json" } : {}) };
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store", signal });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  throw new Error(problem.detail || problem.title || `The service answered ${answer.status}.`);
}

export const ask = async (method, path, body) => (await request(method, path, body)).json();

const inFront = () => document.visibilityState === "visible";

// A hidden page closes its connection, because a browser has six per host, and reconnects when it is visible.
const front = () =>
  new Promise((resolve) => {
    const look = () => inFront() && (document.removeEventListener("visibilitychange", look), resolve());
    document.addEventListener("visibilitychange", look);
    look();
  });

// Calls `hear(snapshot)` for each snapshot, and `line(connected)` on each change. Never returns.
export async function watch(hear, line) {
  for (;;) {
    await front();
    const ended = new AbortController();
    document.addEventListener("visibilitychange", () => inFront() || ended.abort(), { signal: ended.signal });
    let timer = setTimeout(() => ended.abort(), SILENCE);
    try {
      const answer = await request("GET", "/v1/system/stream", null, ended.signal);
      let rest = "";
      for (const chunks = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
        const { value, done } = await chunks.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => ended.abort(), SILENCE);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const [event, data] = block.split("\n");
          line(event === "event: system");
          if (event === "event: system") hear(JSON.parse(data.slice(6)));
        }
      }
    } catch {
      // retried below
    }
    clearTimeout(timer);
    ended.abort();
    if (!inFront()) continue;
    line(false);
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}
