/* Elements of the page. Whatever comes from a run enters as text, never as markup. */

import { runColour } from "./view.js";

export const PHONE = 768; // px: narrower screens

/**
 * An element with attributes and children; strings become text, null is left out.
 * @param {string} tag
 * @param {Record<string, string | null>} attributes
 * @param {...(Node | string | null)} children
 * @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

/** A button that calls `act`. @param {Record<string, string | null>} attributes @param {(event: MouseEvent) => void} act @param {...(Node | string | null)} children */
export function makeButton(attributes, act, ...children) {
  const button = make("button", { type: "button", ...attributes }, ...children);
  button.addEventListener("click", act);
  return button;
}

/** Text in its own direction: numbers with signs and units, names. @param {string} text @param {string | null} direction */
export function bdi(text, direction = null) {
  return make("bdi", { dir: direction }, text);
}

export const ICONS = {
  menu: "M3 8h.01M8 8h.01M13 8h.01",
  reset: "M3 3v4h4M3.5 7A5 5 0 1 1 3 9.5",
  more: "M4 6l4 4 4-4",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  save: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  good: "M2 5l4 4 3-3 5 5M14 7v4h-4",
  fair: "M8 3v6M8 12.5v.01",
  bad: "M4 4l8 8M12 4l-8 8",
  close: "M4 4l8 8M12 4l-8 8",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1 1.5H3zM6.8 14.5h2.4",
  list: "M2.5 4h11M2.5 8h11M2.5 12h11",
  hide: "M2 8s2.2-3.8 6-3.8S14 8 14 8s-2.2 3.8-6 3.8S2 8 2 8zM3 13L13 3",
  eye: "M2 8s2.2-3.8 6-3.8S14 8 14 8s-2.2 3.8-6 3.8S2 8 2 8zM8 6.5v3"
};

/** @param {IconName} name */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({
    viewBox: "0 0 16 16",
    width: "16",
    height: "16",
    "aria-hidden": "true",
    class: "icon"
  }))
    svg.setAttribute(key, value);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A dot in the colour of a run. @param {string} name */
export function runDot(name) {
  const dot = make("span", { class: "run-dot", "aria-hidden": "true" });
  dot.style.setProperty("--tone", `var(--${runColour(name)})`);
  return dot;
}

/** @param {string[]} texts */
export function list(texts, tag = "ul") {
  return make(tag, {}, ...texts.map(text => make("li", {}, text)));
}

/** @param {number} level @param {string} title @param {...(Node | null)} children */
export function card(level, title, ...children) {
  return make("section", { class: "card" }, make(`h${level}`, {}, title), ...children);
}

/**
 * A table that scrolls by itself. A first header that is empty heads the names of rows.
 * @param {string} title @param {string[]} headers @param {(string | number)[][]} rows @param {(name: string) => Node | string} named what shows the name of a row
 */
export function table(title, headers, rows, named = name => name) {
  const head = make("tr", {}, ...headers.map(text => (text ? make("th", { scope: "col" }, bdi(text)) : make("td"))));
  const body = rows.map(([first, ...rest]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("bdi", {}, named(String(first)))),
      ...rest.map(text => make("td", {}, bdi(String(text))))
    )
  );
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))
  );
}

/** A part that is only built when it is opened. @param {Node | string} summary @param {(into: HTMLElement) => void} build */
export function folded(summary, build, attributes = {}, open = false) {
  const element = make("details", attributes, make("summary", {}, summary));
  element.build = build;
  element.fill = () => {
    if (element.open && element.children.length === 1) element.build(element);
  };
  element.addEventListener("toggle", element.fill);
  element.open = open;
  element.fill();
  return element;
}

/** A window above the page, closed by Esc, by its button or by a click beside it. @param {string} title @param {string} closeLabel @param {...Node} children */
export function openDialog(title, closeLabel, ...children) {
  /** @type {HTMLDialogElement} */
  const dialog = make("dialog", { "aria-label": title });
  dialog.append(
    make(
      "div",
      { class: "dialog-head" },
      make("h2", {}, title),
      makeButton(
        { class: "icon-button", "aria-label": closeLabel, title: closeLabel },
        () => dialog.close(),
        icon("close")
      )
    ),
    ...children
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", event => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A menu below its button; it closes after a choice, with Esc, or when something else is clicked. @param {string} label @param {Node} face @param {() => any[]} items buttons */
export function menuButton(label, face, items) {
  const whole = make("div", { class: "menu" });
  const close = (focus = true) => {
    const open = whole.querySelector("[role=menu]");
    if (!open) return;
    open.remove();
    button.setAttribute("aria-expanded", "false");
    removeEventListener("pointerdown", outside, true);
    if (focus) button.focus();
  };
  const outside = (/** @type {Event} */ event) => {
    if (!whole.contains(/** @type {Node} */ (event.target))) close(false);
  };
  const button = makeButton(
    { class: "icon-button", "aria-label": label, title: label, "aria-haspopup": "menu", "aria-expanded": "false" },
    () => {
      if (whole.querySelector("[role=menu]")) {
        close();
        return;
      }
      const choices = items();
      for (const choice of choices) {
        choice.setAttribute("role", "menuitem");
        choice.addEventListener("click", () => close());
      }
      whole.append(make("div", { role: "menu", "aria-label": label }, ...choices));
      button.setAttribute("aria-expanded", "true");
      addEventListener("pointerdown", outside, true);
      choices[0].focus();
    },
    face
  );
  whole.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const choices = [...whole.querySelectorAll("[role=menuitem]")];
    if (!choices.length) return;
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
    if (way) {
      event.preventDefault();
      choices[(choices.indexOf(document.activeElement) + way + choices.length) % choices.length].focus();
    }
  });
  whole.append(button);
  return whole;
}

// --- a page that changes while somebody reads it ---

/** A part that is open stays open, with new contents; a closed one will open with the newest. @param {any} old @param {any} next */
function keepBuilding(old, next) {
  old.build = next.build;
  if (!old.open) return;
  next.open = true;
  next.fill();
  patchChildren(old, next);
}

/** Make `old` say what `next` says, leaving alone what is the same: focus, charts and open parts stay. @param {any} old @param {any} next */
function patch(old, next) {
  if (old.figure && next.figure) old.figure.take(next.figure);
  else if (old.update && next.update)
    old.update(); // controls keep what the person does with them
  else if (old.tagName === "DETAILS" && next.tagName === "DETAILS") {
    if (!old.firstChild.isEqualNode(next.firstChild)) old.firstChild.replaceWith(next.firstChild);
    keepBuilding(old, next);
  } else if (
    !old.figure &&
    !next.figure &&
    next.querySelector &&
    (next.dataset.key !== undefined || next.querySelector("details, .plot"))
  )
    patchChildren(old, next);
  else if (!old.isEqualNode(next)) old.replaceWith(next);
}

/** Children of the same kind are paired in their order; what has no partner comes or goes. @param {any} old @param {any} next */
export function patchChildren(old, next) {
  const before = [...old.childNodes];
  const kind = (/** @type {any} */ node) => {
    if (node.figure) return `figure ${node.figure.shape}`;
    const heading = node.nodeName === "SECTION" && node.querySelector("h2, h3, h4");
    return [node.nodeName, node.className, node.dataset && node.dataset.key, heading && heading.textContent].join("\n");
  };
  let at = 0;
  for (const node of [...next.childNodes]) {
    const partner = before.findIndex((candidate, i) => i >= at && kind(candidate) === kind(node));
    if (partner < 0) {
      old.insertBefore(node, before[at] || null);
      continue;
    }
    for (; at < partner; at += 1) before[at].remove();
    patch(before[at], node);
    at += 1;
  }
  for (; at < before.length; at += 1) before[at].remove();
}
