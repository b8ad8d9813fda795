// Helpers that create and change nodes. Text is only inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const button = (attributes, ...children) => el("button", { type: "button", ...attributes }, ...children);

// setHidden and setText change only what differs: an unchanged page changes no node.
export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Creates a line icon from a path on a grid of 24 units.
export function icon(pathData) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = svg.appendChild(document.createElementNS(SVG, "path"));
  path.setAttribute("d", pathData);
  return svg;
}

export const GEAR = "M4 7h9m4 0h3M4 17h3m4 0h9M15 4.8v4.4M9 14.8v4.4";
export const DOTS = "M5 12h.01M12 12h.01M19 12h.01";
export const UP = "M12 19V5m-6 6 6-6 6 6";
export const BELL = "M6 16V11a6 6 0 1 1 12 0v5l1.5 2h-15zM10 20.5h4";
export const CLOUD = "M7 18a4 4 0 0 1-.5-8 6 6 0 0 1 11.4 1.5A3.3 3.3 0 0 1 17.5 18zM4 4l16 16";
export const ALERT = "M12 8v5m0 3h.01M12 3.5 2.8 19.5h18.4z";
