// Keyboard: arrows or j and k move between rows, u marks, Delete hides, z undoes.

const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: -Infinity, End: Infinity };

export function keyboardHandler(view, handlers) {
  return (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    const burst = view.current;
    if (event.key in STEPS) moveFocus(view, STEPS[event.key]);
    else if (event.key === "u" && burst) handlers.toggleRead(burst);
    else if (event.key === "Delete" && burst) handlers.hide(burst);
    else if (event.key === "z") handlers.undo();
    else return;
    event.preventDefault();
  };
}

function moveFocus(view, step) {
  const rows = [...view.list.children];
  const index = rows.indexOf(view.rows.get(view.current)?.node);
  const target = Math.min(rows.length - 1, Math.max(0, index + step));
  rows[target]?.querySelector(".open").focus();
}
