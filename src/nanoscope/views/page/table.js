/* The table of runs: only the rows in sight are in the page, so that thousands stay fluid. Focus stays on its row. */

import { runColour } from "./view.js";
import { bdi, icon, make, makeButton } from "./dom.js";
import { cellLoss, grouped, NOTHING, shortNumber } from "./numbers.js";
import { csvOf, saveText } from "./figure.js";
import { STATES } from "./run.js";
import { CHIPS, commonFolder, compareValues, FEWEST_CHIPS, leadingRuns, nameIn, sortKey, tableRows } from "./runs.js";

const SPARK_WIDTH = 56;
const SPARK_HEIGHT = 16;
const ROWS_BEYOND = 8; // in sight, to scroll without gaps
const WIDE_SETTINGS = 3; // columns of settings
const DECISIVE = ["learning_rate", "matrix_lr", "batch_size", "n_layer", "n_embd", "dropout", "max_iters", "seed"];
const MOST_SHOWN = 50; // runs at once, as the server has it

export class RunTable {
  /**
   * @param {{choose: (names: string[], of?: number) => void, chosen: () => string[], labels: () => Record<string, string>, remove: (name: string) => void,
   *   recall: (key: string) => string | null, remember: (key: string, value: string) => void}} page
   */
  constructor(page) {
    this.page = page;
    /** @type {Map<string, ListedRun>} */
    this.runs = new Map();
    /** @type {string[]} */
    this.columns = [];
    this.total = 0; // runs in the folder; of very many, the list has the newest
    this.search = "";
    this.chip = "all";
    this.sort = "updated";
    this.down = true;
    /** @type {string | null} */
    this.groupChoice = page.recall("group");
    /** @type {boolean | null} null: wide if several runs are shown and settings differ */
    this.wideChoice = null;
    /** @type {Set<string>} */
    this.closed = new Set();
    /** @type {Set<string>} */
    this.hidden = new Set(JSON.parse(page.recall("hidden") || "[]"));
    /** @type {string[]} */
    this.settings = []; // columns of them
    this.prefix = ""; // of the names, which all have in common
    /** @type {Set<string>} */
    this.leads = new Set(); // the run with the lowest loss of each kind
    this.current = ""; // the row that the keys are at: name of a run or key of a group
    /** @type {Row[]} */
    this.rows = [];
    /** @type {ListedRun[]} */
    this.shown = [];
    /** @type {Map<string, any>} */
    this.drawn = new Map();
  }

  get group() {
    if (
      this.groupChoice &&
      (this.groupChoice === "none" || this.groupChoice === "folder" || this.columns.includes(this.groupChoice))
    )
      return this.groupChoice;
    return [...this.runs.values()].some(run => run.label.includes("/") && run.state !== "log") ? "folder" : "none";
  }

  get hasRoom() {
    return innerWidth >= 768;
  } // for the settings beside the names

  get wide() {
    if (!this.hasRoom) return false;
    if (this.wideChoice !== null) return this.wideChoice;
    return this.columns.length > 0 && (this.page.chosen().length > 1 || this.columns.includes(this.group));
  }

  /** Everything anew, as after a change of language. @returns {any} */
  build() {
    const labels = this.page.labels();
    this.drawn.clear();
    this.field = make("input", {
      type: "search",
      id: "search",
      placeholder: labels.search,
      "aria-label": labels.search,
      autocomplete: "off",
      spellcheck: "false",
      dir: "auto",
      "aria-keyshortcuts": "/"
    });
    this.field.value = this.search;
    this.field.addEventListener("input", () => {
      this.search = this.field.value;
      this.update();
    });
    this.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        this.move(0, true);
      }
    });
    this.grouping = make("select", { id: "group", "aria-label": labels.group_by });
    this.grouping.addEventListener("change", () => {
      this.groupChoice = this.grouping.value;
      this.page.remember("group", this.grouping.value);
      this.update();
    });
    this.widen = makeButton(
      { class: "control", id: "widen" },
      () => {
        this.wideChoice = !this.wide;
        this.update();
      },
      labels.settings_columns
    );
    this.chips = make("div", { class: "chips", role: "group", "aria-label": labels.filter });
    this.head = make("div", { role: "row", class: "run-row run-head", "aria-rowindex": "1" });
    this.space = make("div", { class: "run-space", role: "presentation" });
    this.scroller = make("div", { class: "run-scroller", role: "rowgroup" }, this.space);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.grid = make(
      "div",
      { role: "grid", class: "run-grid", "aria-label": labels.watch, "aria-multiselectable": "true" },
      make("div", { role: "rowgroup" }, this.head),
      this.scroller
    );
    this.grid.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    this.count = make("span", { class: "faint", role: "status" });
    this.csv = makeButton({ class: "control quiet", id: "runs-csv" }, () => this.saveCsv(), icon("save"), "CSV");
    const whole = make(
      "div",
      { class: "run-table" },
      make(
        "div",
        { class: "run-tools" },
        make("div", { class: "search" }, this.field, make("kbd", { "aria-hidden": "true" }, "/"))
      ),
      this.chips,
      make(
        "div",
        { class: "run-picks" },
        this.grouping,
        this.widen,
        make("span", { class: "spacer" }),
        makeButton({ class: "link", id: "show-all" }, () => this.showMany(this.shown), labels.show_all),
        makeButton({ class: "link", id: "show-none" }, () => this.page.choose([]), labels.show_none)
      ),
      this.grid,
      make("div", { class: "run-foot" }, this.count, this.csv)
    );
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.update();
    return whole;
  }

  get rowHeight() {
    return matchMedia("(pointer: coarse)").matches ? 40 : this.wide ? 27 : 30;
  }

  /** The settings that differ between the runs that are shown, or else listed; those first that usually decide. @param {ListedRun[]} listed */
  tellingColumns(listed) {
    const chosen = listed.filter(run => this.page.chosen().includes(run.name));
    const runs = chosen.length > 1 ? chosen : listed;
    const place = (/** @type {string} */ name) =>
      DECISIVE.includes(name) ? DECISIVE.indexOf(name) : DECISIVE.length - 1.5; // the seed is last
    return this.columns
      .filter(name => name !== this.group && new Set(runs.map(run => run.settings[name])).size > 1)
      .sort((a, b) => place(a) - place(b))
      .slice(0, WIDE_SETTINGS);
  }

  /** Show these runs; of very many, those with the lowest losses. @param {ListedRun[]} runs */
  showMany(runs) {
    const key = sortKey("best", runs);
    const best =
      runs.length > MOST_SHOWN ? [...runs].sort((a, b) => compareValues(key(a), key(b))).slice(0, MOST_SHOWN) : runs;
    this.page.choose(
      best.map(({ name }) => name),
      runs.length
    );
  }

  /** After new data, or another choice. */
  update() {
    if (!this.grid) return;
    const labels = this.page.labels();
    const { rows, shown, counts } = tableRows([...this.runs.values()], {
      search: this.search,
      chip: this.chip,
      sort: this.sort,
      down: this.down,
      group: this.group,
      closed: this.closed,
      hidden: this.hidden
    });
    if (this.chip !== "all" && !counts[this.chip] && !this.search) {
      this.chip = "all";
      this.update();
      return;
    }
    this.rows = rows;
    this.shown = shown;
    this.prefix = this.group === "folder" ? "" : commonFolder(shown);
    this.leads = leadingRuns(shown);
    this.settings = this.wide ? this.tellingColumns(shown) : [];
    document.documentElement.classList.toggle("sweep", this.wide);
    this.showChips(counts, labels);
    this.showGrouping(labels);
    this.showHead(labels);
    this.widen.setAttribute("aria-pressed", String(this.wide));
    this.widen.hidden = !this.columns.length || !this.hasRoom;
    this.grid.setAttribute("aria-rowcount", String(rows.length + 1));
    this.grid.classList.toggle("wide", this.wide);
    this.grid.style.setProperty("--settings", `repeat(${this.settings.length}, minmax(44px, 72px))`);
    this.grid.classList.toggle("no-settings", !this.settings.length);
    const chosen = this.page.chosen();
    const text = (this.total > this.runs.size ? labels.count_newest : labels.count_shown)
      .replace("{total}", grouped(this.total))
      .replace("{runs}", grouped(this.runs.size))
      .replace("{shown}", String(chosen.filter(name => this.runs.has(name)).length));
    if (this.count.textContent !== text) this.count.textContent = text;
    if (!rows.some(row => keyOf(row) === this.current)) this.current = "";
    this.draw();
  }

  /** @param {Record<string, number>} counts @param {Labels} labels */
  showChips(counts, labels) {
    const names = Object.keys(CHIPS).filter(name => name === "all" || counts[name] || name === this.chip);
    const wanted =
      names.length > FEWEST_CHIPS || counts.hidden || names.includes("log")
        ? names
        : names.length > 1
          ? names
          : ["all"];
    const next = make(
      "div",
      {},
      ...wanted.map(name =>
        make(
          "button",
          {
            type: "button",
            class: "chip",
            "data-key": name,
            "data-chip": name,
            "aria-pressed": String(name === this.chip)
          },
          labels[`chip_${name}`],
          " ",
          make("span", { class: "chip-count" }, grouped(counts[name] || 0))
        )
      )
    );
    const before = [...this.chips.children];
    if (before.length === next.children.length && before.every((chip, i) => chip.isEqualNode(next.children[i]))) return;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.chip : undefined;
    this.chips.replaceChildren(...next.childNodes);
    for (const chip of this.chips.children)
      chip.addEventListener("click", () => {
        this.chip = chip.dataset.chip;
        this.scroller.scrollTop = 0;
        this.update();
      });
    if (focused) {
      const again = this.chips.querySelector(`[data-chip="${focused}"]`);
      if (again) again.focus();
    }
  }

  /** @param {Labels} labels */
  showGrouping(labels) {
    const choices = [
      ["none", labels.group_none],
      ["folder", labels.group_folder],
      ...this.columns.map(name => [name, name])
    ];
    const key = JSON.stringify(choices);
    if (this.grouping.dataset.choices !== key) {
      this.grouping.replaceChildren(...choices.map(([value, text]) => make("option", { value }, text)));
      this.grouping.dataset.choices = key;
    }
    this.grouping.value = this.group;
  }

  /** @param {Labels} labels */
  showHead(labels) {
    const columns = [
      ["name", labels.column_run],
      ...this.settings.map(name => [`setting ${name}`, name]),
      ["spark", labels.column_val],
      ["best", labels.column_best],
      ...(this.wide
        ? [
            ["best_step", labels.column_at],
            ["tok_s", labels.column_speed]
          ]
        : [])
    ];
    const key = JSON.stringify([columns, this.sort, this.down]);
    if (this.head.dataset.key === key) return;
    this.head.dataset.key = key;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.sort : undefined;
    const cells = columns.map(([column, text]) => {
      if (column === "spark") return make("div", { role: "columnheader", class: "cell cell-spark" }, text);
      const sorted = this.sort === column;
      const firstDown = column === "tok_s" || column === "best_step";
      const button = makeButton(
        {
          class: "sort",
          "data-sort": column,
          title: sorted && this.down !== firstDown ? labels.sort_newest : labels.sort_by
        },
        () => {
          if (!sorted) Object.assign(this, { sort: column, down: firstDown });
          else if (this.down === firstDown) this.down = !firstDown;
          else Object.assign(this, { sort: "updated", down: true }); // the third time: the newest first, as at the beginning
          this.update();
        },
        column.startsWith("setting ") ? make("code", {}, text) : text,
        sorted ? make("span", { "aria-hidden": "true" }, this.down ? " ↓" : " ↑") : null
      );
      return make(
        "div",
        {
          role: "columnheader",
          class: `cell cell-${column.split(" ")[0]}`,
          "aria-sort": sorted ? (this.down ? "descending" : "ascending") : null
        },
        button
      );
    });
    this.head.replaceChildren(
      make("div", { role: "columnheader", class: "cell cell-dot", "aria-label": labels.column_shown }),
      make("div", { role: "columnheader", class: "cell cell-state", "aria-label": labels.state }),
      ...cells,
      make("div", { role: "columnheader", class: "cell cell-act", "aria-label": labels.column_hide })
    );
    if (focused) {
      const again = this.head.querySelector(`[data-sort="${CSS.escape(focused)}"]`);
      if (again) again.focus();
    }
  }

  // --- rows ---

  /** Put the rows in sight into the page; those that stay are changed in place. */
  draw() {
    const height = this.rowHeight;
    this.space.style.height = `${this.rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - ROWS_BEYOND);
    const last = Math.min(
      this.rows.length,
      Math.ceil((this.scroller.scrollTop + (this.scroller.clientHeight || 600)) / height) + ROWS_BEYOND
    );
    const labels = this.page.labels();
    const chosen = new Set(this.page.chosen());
    const kept = new Set();
    const at = this.rows.findIndex(row => keyOf(row) === this.current);
    const places = new Set(Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i));
    if (at >= 0) places.add(at); // the row that has the focus stays, wherever the others are
    let tabbed =
      at >= 0
        ? this.current
        : this.rows.length
          ? keyOf(this.rows[Math.min(first ? first + ROWS_BEYOND : 0, this.rows.length - 1)])
          : "";
    for (const place of [...places].sort((a, b) => a - b)) {
      const row = this.rows[place];
      const key = keyOf(row);
      kept.add(key);
      const known = this.drawn.get(key);
      const stamp = row.group
        ? JSON.stringify([
            row.group.runs.length,
            row.group.best,
            row.group.mean,
            row.group.spread,
            row.group.failed,
            this.closed.has(key),
            labels.column_run
          ])
        : JSON.stringify([
            row.run.version,
            row.run.state,
            row.run.best,
            row.scale,
            row.run.spark.length,
            chosen.has(row.run.name),
            chosen.size === 1,
            this.settings,
            this.wide,
            this.group,
            this.prefix,
            this.leads.has(row.run.name),
            this.hidden.has(row.run.name),
            labels.column_run
          ]);
      let element = known && known.element;
      if (!known || known.stamp !== stamp) {
        const next = row.group ? this.groupRow(row.group, labels) : this.runRow(row.run, row.scale, chosen, labels);
        if (element) this.patchRow(element, next);
        else {
          element = next;
          this.space.append(element);
        }
        this.drawn.set(key, { element, stamp });
      }
      element.style.transform = `translateY(${place * height}px)`;
      element.style.height = `${height}px`;
      element.setAttribute("aria-rowindex", String(place + 2));
      const target = element.querySelector(".open");
      target.tabIndex = key === tabbed ? 0 : -1;
    }
    for (const [key, { element }] of this.drawn)
      if (!kept.has(key)) {
        element.remove();
        this.drawn.delete(key);
      }
  }

  /** Change a row in place, cell by cell: the focus stays where it is. @param {any} old @param {any} next */
  patchRow(old, next) {
    old.className = next.className;
    for (const name of ["aria-selected", "aria-expanded"]) {
      const value = next.getAttribute(name);
      if (value === null) old.removeAttribute(name);
      else old.setAttribute(name, value);
    }
    const active = document.activeElement;
    if (old.children.length !== next.children.length) {
      const mark = active && old.contains(active) ? active.className : "";
      old.replaceChildren(...next.childNodes);
      if (mark) {
        const again = old.querySelector(`.${mark.split(" ")[0]}`);
        if (again) again.focus();
      }
      return;
    }
    const cells = [...next.children]; // those that move leave the other row
    [...old.children].forEach((cell, i) => {
      const fresh = cells[i];
      const box = cell.querySelector("input");
      if (box) {
        box.checked = fresh.querySelector("input").checked;
        return;
      }
      if (cell.contains(active) && active !== null) {
        const link = cell.querySelector(".open");
        const other = fresh.querySelector(".open");
        if (link && other) {
          for (const name of ["aria-current", "href"]) {
            const value = other.getAttribute(name);
            if (value === null) link.removeAttribute(name);
            else link.setAttribute(name, value);
          }
          if (!link.firstChild.isEqualNode(other.firstChild)) link.replaceChildren(...other.childNodes);
        }
        return;
      }
      if (!cell.isEqualNode(fresh)) cell.replaceWith(fresh);
    });
  }

  /** @param {Group} group @param {Labels} labels */
  groupRow(group, labels) {
    const open = !this.closed.has(group.key);
    const count = [
      String(group.runs.length),
      group.failed ? labels.count_failed.replace("{n}", String(group.failed)) : ""
    ]
      .filter(Boolean)
      .join(" · ");
    const button = makeButton(
      { class: "open group-name", "aria-expanded": String(open) },
      () => {
        if (this.closed.has(group.key)) this.closed.delete(group.key);
        else this.closed.add(group.key);
        this.current = group.key;
        this.update();
      },
      icon("more"),
      group.folder
        ? make("bdi", { dir: "ltr" }, group.value)
        : make("bdi", { dir: "ltr" }, make("code", {}, group.label), " ", make("strong", {}, group.value)),
      make("span", { class: "faint" }, ` ${count}`)
    );
    const all = makeButton(
      { class: "link", "aria-label": `${labels.show_all}: ${group.value}`, tabindex: "-1" },
      () => this.showMany(group.runs),
      labels.show
    );
    const single = group.best !== null || group.runs.length < 2;
    const value = group.best ?? group.mean;
    return make(
      "div",
      { role: "row", class: `run-row group-row${open ? "" : " closed"}` },
      make("div", { role: "gridcell", class: "cell cell-group" }, button),
      make("div", { role: "gridcell", class: "cell cell-show" }, all),
      make(
        "div",
        { role: "gridcell", class: "cell cell-mean", title: single ? labels.column_best : labels.mean_spread },
        make(
          "bdi",
          { dir: "ltr" },
          make("strong", {}, value === null ? NOTHING : single || value >= 1e5 ? cellLoss(value) : value.toFixed(3)),
          group.spread === null
            ? null
            : make(
                "span",
                { class: "faint" },
                ` ± ${group.spread >= 1e5 ? cellLoss(group.spread) : group.spread.toFixed(3)}`
              )
        )
      )
    );
  }

  /** @param {ListedRun} run @param {[number, number] | null} scale @param {Set<string>} chosen @param {Labels} labels */
  runRow(run, scale, chosen, labels) {
    const shown = chosen.has(run.name);
    const box = make("input", {
      type: "checkbox",
      class: "dot-box",
      tabindex: "-1",
      "data-run": run.name,
      "aria-label": labels.compare_with.replace("{name}", () => run.label)
    });
    box.checked = shown;
    box.style.setProperty("--tone", `var(--${runColour(run.label)})`);
    box.addEventListener("change", () => {
      this.current = run.name;
      this.toggle(run.name);
    });
    const link = make(
      "a",
      {
        class: "open",
        href: hashOf([run.name]),
        "aria-current": shown && chosen.size === 1 ? "page" : null,
        title: run.label
      },
      nameIn(run, this.group, this.prefix)
    );
    link.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.current = run.name;
      this.page.choose([run.name]);
    });
    link.addEventListener("focus", () => {
      this.current = run.name;
    });
    const broken = run.nan_step !== null && run.state === "failed";
    const best = make(
      "bdi",
      { class: broken ? "tone-bad" : this.leads.has(run.name) ? "lead" : null, dir: "ltr" },
      broken ? "NaN" : run.best === null ? NOTHING : cellLoss(run.best)
    );
    const cell = (/** @type {string} */ kind, /** @type {(Node | string | null)[]} */ ...children) =>
      make("div", { role: "gridcell", class: `cell cell-${kind}` }, ...children);
    const act =
      run.state === "log"
        ? makeButton(
            {
              class: "icon-button row-act",
              tabindex: "-1",
              "aria-label": `${labels.remove}: ${run.label}`,
              title: labels.remove
            },
            () => this.page.remove(run.name),
            icon("close")
          )
        : makeButton(
            {
              class: "icon-button row-act",
              tabindex: "-1",
              "aria-label": `${this.hidden.has(run.name) ? labels.unhide : labels.hide}: ${run.label}`,
              title: this.hidden.has(run.name) ? labels.unhide : labels.hide
            },
            () => this.hide(run.name),
            icon(this.hidden.has(run.name) ? "eye" : "hide")
          );
    return make(
      "div",
      { role: "row", class: `run-row${shown ? " chosen" : ""}`, "aria-selected": String(shown), "data-name": run.name },
      cell("dot", box),
      cell("state", stateGlyph(run.state, labels)),
      cell("name", link),
      ...this.settings.map(name =>
        cell("setting", bdi(run.settings[name] === undefined ? NOTHING : String(run.settings[name]), "ltr"))
      ),
      cell("spark", sparkline(run, scale, shown)),
      cell("best", best),
      ...(this.wide
        ? [
            cell("best_step", bdi(run.best_step === null ? NOTHING : String(run.best_step), "ltr")),
            cell("tok_s", bdi(shortNumber(run.tok_s), "ltr"))
          ]
        : []),
      cell("act", act)
    );
  }

  // --- what the person does ---

  /** @param {string} name */
  toggle(name) {
    const chosen = this.page.chosen();
    this.page.choose(
      chosen.includes(name) ? chosen.filter(other => other !== name) : [...chosen, name].slice(-MOST_SHOWN)
    );
  }

  /** @param {string} name */
  hide(name) {
    const place = this.rows.findIndex(row => keyOf(row) === name);
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.page.remember("hidden", JSON.stringify([...this.hidden]));
    this.update();
    if (this.rows.length) this.focusAt(Math.min(place, this.rows.length - 1));
  }

  /** Focus a row so many further. @param {number} by @param {boolean} fromTop */
  move(by, fromTop = false) {
    if (!this.rows.length) return;
    const at = this.rows.findIndex(row => keyOf(row) === this.current);
    this.focusAt(fromTop ? 0 : at < 0 ? 0 : Math.max(0, Math.min(this.rows.length - 1, at + by)));
  }

  /** @param {number} place */
  focusAt(place) {
    const row = this.rows[place];
    if (!row) return;
    this.current = keyOf(row);
    const height = this.rowHeight;
    const { scrollTop, clientHeight } = this.scroller;
    if (place * height < scrollTop) this.scroller.scrollTop = place * height;
    else if ((place + 1) * height > scrollTop + clientHeight)
      this.scroller.scrollTop = (place + 1) * height - clientHeight;
    this.draw();
    const drawn = this.drawn.get(this.current);
    if (drawn) drawn.element.querySelector(".open").focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target instanceof HTMLElement && event.target.closest(".run-head")) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.rowHeight) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[event.key];
    if (by) {
      event.preventDefault();
      this.move(by);
      return;
    }
    const row = this.rows.find(each => keyOf(each) === this.current);
    if (!row) return;
    if (event.key === " " && !row.group) {
      event.preventDefault();
      this.toggle(row.run.name);
    }
  }

  /** The run that the keys are at. */
  get currentRun() {
    return this.runs.has(this.current) ? this.current : "";
  }

  saveCsv() {
    const headers = [
      "run",
      "state",
      "step",
      "total",
      "best_val_loss",
      "best_step",
      "tokens_per_second",
      ...this.columns
    ];
    const rows = this.shown.map(run =>
      [
        run.label,
        run.state,
        run.step,
        run.total,
        run.best,
        run.best_step,
        run.tok_s,
        ...this.columns.map(name => run.settings[name])
      ].map(value => (value === null || value === undefined ? "" : typeof value === "boolean" ? String(value) : value))
    );
    saveText("nanoscope-runs.csv", "text/csv", csvOf(headers, rows));
  }
}

/** @param {Row} row */
function keyOf(row) {
  return row.group ? row.group.key : row.run.name;
}

/** The address of runs, with the view of the charts as it is. @param {string[]} names */
export function hashOf(names) {
  return `#${new URLSearchParams(names.map(name => ["run", name]))}`;
}

/** @param {string} state @param {Labels} labels */
function stateGlyph(state, labels) {
  const [glyph, tone] =
    { log: ["≡", "soft"], unreadable: ["!", "bad"] }[state] ||
    STATES[/** @type {keyof typeof STATES} */ (state)] ||
    STATES.unfinished;
  const word = labels[`state_${state}`] || state;
  return make("span", { class: `state-glyph tone-${tone}`, role: "img", "aria-label": word, title: word }, glyph);
}

/** The losses of a run so far, as long as the share of it that is done. @param {ListedRun} run @param {[number, number] | null} scale @param {boolean} shown */
function sparkline(run, scale, shown) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [name, value] of Object.entries({
    viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`,
    width: String(SPARK_WIDTH),
    height: String(SPARK_HEIGHT),
    class: "spark",
    "aria-hidden": "true"
  }))
    svg.setAttribute(name, value);
  const values = run.spark;
  if (!scale || values.length < 2) return svg;
  const share = run.total && run.step ? Math.min(1, run.step / run.total) : 1;
  const [low, high] = scale;
  const x = (/** @type {number} */ i) => 2 + ((SPARK_WIDTH - 5) * Math.max(share, 0.08) * i) / (values.length - 1);
  const y = (/** @type {number} */ value) =>
    2 + (SPARK_HEIGHT - 4) * (1 - Math.sqrt((Math.min(value, high) - low) / (high - low || 1))); // the end of a curve is what differs
  const points = values.flatMap((value, i) => (value === null ? [] : [`${x(i).toFixed(1)} ${y(value).toFixed(1)}`]));
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", `M${points.join("L")}`);
  if (shown) svg.style.setProperty("--tone", `var(--${runColour(run.label)})`);
  const dot = document.createElementNS(space, "circle");
  const [left, top] = (points[points.length - 1] || "0 0").split(" ");
  for (const [name, value] of Object.entries({ cx: left, cy: top, r: "1.5" })) dot.setAttribute(name, value);
  svg.append(path, dot);
  if (Number(values.findLast(value => value !== null)) > high) {
    // it goes on above the picture
    dot.remove();
    path.setAttribute("d", `${path.getAttribute("d")}M${Number(left) - 2.5} 3.5L${left} 0.5L${Number(left) + 2.5} 3.5`);
    svg.classList.add("beyond");
  }
  return svg;
}
