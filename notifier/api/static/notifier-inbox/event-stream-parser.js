// Parser of text/event-stream for fetch, because EventSource can't send an Authorization header.

const MAX_LINE = 1_000_000; // characters; this service never sends a longer line

// Returns a function that accepts chunks of text. `onEvent` receives {type, data, id, retry}; comments are ignored.
export function eventParser(onEvent) {
  let rest = "";
  let event = { type: "", data: [], id: undefined };
  const parseLine = (line) => {
    if (line === "") {
      if (event.data.length || event.id !== undefined) onEvent({ type: event.type || "message", data: event.data.join("\n"), id: event.id });
      event = { type: "", data: [], id: undefined };
      return;
    }
    const [, field, value] = line.match(/^([^:]*):? ?(.*)$/s);
    if (field === "data") event.data.push(value);
    else if (field === "event") event.type = value;
    else if (field === "id" && !value.includes("\0")) event.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) onEvent({ type: "retry", retry: Number(value) });
  };
  return (chunk) => {
    // A CR at the very end may be half of a CRLF: wait for the next chunk.
    const lines = (rest + chunk).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    if (rest.length > MAX_LINE) throw new RangeError("line is too long");
    lines.forEach(parseLine);
  };
}
