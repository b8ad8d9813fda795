// Keyboard: arrows or j and k move between rows, u marks, Delete hides, z undoes.

const STEP = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: -Infinity, End: Infinity };

export function keys(view, act) {
  return (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    const burst = view.current;
    if (event.key in STEP) step(view, STEP[event.key]);
    else if (event.key === "u" && burst) act.toggle(burst);
    else if (event.key === "Delete" && burst) act.hide(burst);
    else if (event.key === "z") act.undo();
    else return;
    event.preventDefault();
  };
}

function step(view, by) {
  const order = [...view.list.children];
  const here = order.indexOf(view.rows.get(view.current)?.node);
  const to = Math.min(order.length - 1, Math.max(0, here + by));
  order[to]?.querySelector(".open").focus();
}
