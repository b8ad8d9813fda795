// Parser of text/event-stream for fetch, because EventSource can't send an Authorization header.

const LARGEST = 1_000_000; // characters without a line end: not from this service

// Returns a function that accepts chunks of text. `tell` gets {type, data, id, retry}; comments are ignored.
export function reader(tell) {
  let rest = "";
  let event = { type: "", data: [], id: undefined };
  const line = (text) => {
    if (text === "") {
      if (event.data.length || event.id !== undefined) tell({ type: event.type || "message", data: event.data.join("\n"), id: event.id });
      event = { type: "", data: [], id: undefined };
      return;
    }
    const [, field, value] = text.match(/^([^:]*):? ?(.*)$/s);
    if (field === "data") event.data.push(value);
    else if (field === "event") event.type = value;
    else if (field === "id" && !value.includes("\0")) event.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) tell({ type: "retry", retry: Number(value) });
  };
  return (text) => {
    // A CR at the very end may be half of a CRLF: wait for the next chunk.
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    if (rest.length > LARGEST) throw new RangeError("a line without an end");
    lines.forEach(line);
  };
}
