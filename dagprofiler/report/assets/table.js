// Tables that sort by a click on a head, filter by their texts, and can be saved as CSV.

const PAGE = 50;
const alphabetical = new Intl.Collator();

/**
 * Return a table with its tools.
 *
 * Columns have `label`; `value(row)`, which sorts, or `size(row)` instead; `text(row)` or
 * `cell(row)`, an element; `number`, whether it is one; `unit`, of the values; `extra`, whether it is
 * not shown until it is chosen; and `key`, whether it is shown on any screen: of the others as many
 * as fit, none on a narrow one, where each row is a card. The first is the row's head, and what the
 * filter looks into, unless `words(row)` says more. `task(row)` is the task of a row, which selection
 * and search follow.
 */
function sortable(caption, columns, rows, { sort = null, down = true, words = null, task = null } = {}) {
  const state = { sort, down, filter: "", page: 0 };
  columns[0].key = true;
  const texts = words || ((row) => columns[0].text ? columns[0].text(row) : names[row]);
  let shown = rows;

  const heads = columns.map((column, i) => {
    const button = element("button", { type: "button" }, column.label);
    button.addEventListener("click", () => {
      state.down = state.sort === i ? !state.down : Boolean(column.number);
      state.sort = i;
      refresh();
    });
    return element("th", { scope: "col", title: column.title }, button);
  });
  const body = element("tbody");
  const filter = element("input", { type: "search", "aria-label": `Filter: ${caption}`, placeholder: "Filter" });
  const counted = element("span", { class: "count" });
  const previous = element("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = element("button", { type: "button", onclick: () => turn(1) }, "Next");
  filter.addEventListener("input", () => {
    state.filter = filter.value.toLowerCase();
    refresh();
  });

  function refresh() {
    state.page = 0;
    const wanted = state.filter;
    shown = wanted ? rows.filter((row) => texts(row).toLowerCase().includes(wanted)) : rows.slice();
    const found = (row) => (task && hits && hits.has(task(row)) ? 0 : 1);
    const column = state.sort === null ? null : columns[state.sort];
    const key = column ? column.size || column.value : () => 0;
    const sign = state.down ? -1 : 1;
    const keyed = shown.map((row) => [key(row), row, found(row)]);
    keyed.sort(([a, , first], [b, , second]) => {
      // What is searched for is first, unknown values are last in either order.
      const without = (a === null || a === undefined) - (b === null || b === undefined);
      return first - second || without || sign * (typeof a === "string" ? alphabetical.compare(a, b) : a - b) || 0;
    });
    shown = keyed.map(([, row]) => row);
    heads.forEach((head, i) => {
      if (state.sort === i) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    show();
  }

  function turn(by) {
    state.page += by;
    show();
  }

  function show() {
    const from = state.page * PAGE;
    const page = shown.slice(from, from + PAGE);
    heads.forEach((head, i) => {
      head.hidden = !isShown(columns[i]);
      head.className = classOf(columns[i]);
    });
    body.replaceChildren(...page.map(line));
    const last = from + PAGE >= shown.length;
    counted.textContent = shown.length > PAGE
      ? `${whole.format(from + 1)}–${whole.format(from + page.length)} of ${whole.format(shown.length)}`
      : state.filter ? `${whole.format(shown.length)} of ${whole.format(rows.length)}` : "";
    previous.disabled = from === 0;
    next.disabled = last;
    previous.hidden = next.hidden = shown.length <= PAGE;
  }

  function line(row) {
    const made = element("tr", {});
    columns.forEach((column, i) => {
      if (!isShown(column)) return;
      const content = column.cell ? column.cell(row) : column.text(row);
      made.append(element(i ? "td" : "th", { scope: i ? null : "row", class: classOf(column), "data-label": column.label }, content));
    });
    if (task) {
      made.dataset.task = task(row);
      made.classList.toggle("chosen", task(row) === chosen);
      made.classList.toggle("found", hits !== null && hits.has(task(row)));
    }
    return made;
  }

  /** Leave out the last columns that do not fit, unless they have been chosen. */
  function fit() {
    for (const column of columns) column.beyond = false;
    show();
    while (frame.scrollWidth > frame.clientWidth && frame.clientWidth) {
      const last = columns.slice().reverse().find((column) => isShown(column) && !column.key);
      if (!last) break;
      last.beyond = true;
      show();
    }
  }

  /** Turn to the page of the selected task. */
  function follow() {
    const at = shown.findIndex((row) => task(row) === chosen);
    if (at >= 0 && Math.floor(at / PAGE) !== state.page) {
      state.page = Math.floor(at / PAGE);
      show();
    }
    for (const row of body.children) row.classList.toggle("chosen", Number(row.dataset.task) === chosen);
  }

  if (task) {
    whenChosen(follow);
    whenSearched(() => {
      refresh();
      if (hits === null) follow();
    });
  }
  refresh();
  const tools = element("div", { class: "tools" },
    rows.length > 8 ? filter : null, counted,
    element("span", { class: "end pager" }, previous, next,
      columns.length > 4 ? columnChoice(caption, columns, fit) : null,
      element("button", { type: "button", title: "Save what is shown as a CSV file", onclick: () => save(`${caption}.csv`, csvOf(columns, shown)) }, "CSV")));
  const table = element("table", {}, element("caption", { class: "unseen" }, caption), element("thead", {}, element("tr", {}, heads)), body);
  const frame = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${caption}, as a table` }, table);
  whenLookChanges(fit);
  return element("div", {}, tools, frame);
}

function isShown(column) {
  return !column.extra && !column.beyond;
}

function classOf(column) {
  return [column.number ? "number" : column.long ? "text" : "", column.key ? "" : "minor"].filter(Boolean).join(" ");
}

/** Return the boxes that choose which columns are shown; those that are chosen need not fit. */
function columnChoice(caption, columns, fit) {
  const boxes = columns.slice(1).map((column) => {
    const box = element("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      column.extra = !box.checked;
      column.key = box.checked;
      fit();
    });
    return element("label", {}, box, column.label);
  });
  const check = () => boxes.forEach(({ firstChild: box }, i) => {
    box.checked = isShown(columns[i + 1]);
  });
  return element("details", { class: "choice", ontoggle: check }, element("summary", { "aria-label": `Columns: ${caption}` }, "Columns"), element("div", {}, boxes));
}

/** Return rows as CSV (RFC 4180): plain numbers, with the units in the heads. */
function csvOf(columns, rows) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const shown = columns.filter(({ extra }) => !extra);
  const heads = shown.map(({ label, unit }) => (unit ? `${label} (${unit})` : label));
  return [heads, ...rows.map((row) => shown.map(({ value }) => value(row)))].map((cells) => `${cells.map(quoted).join(",")}\r\n`).join("");
}

function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: url, download: name.replaceAll(" ", "-").toLowerCase() }).click();
  URL.revokeObjectURL(url);
}

/** Return a small table as it is. */
function plainTable(caption, heads, rows, numbers = []) {
  const cell = (tag, content, i) => element(tag, { scope: tag === "th" ? "row" : null, class: numbers.includes(i) ? "number" : "text" }, content);
  return element("table", { class: "plain" },
    element("caption", { class: "unseen" }, caption),
    heads ? element("thead", {}, element("tr", {}, heads.map((head, i) => element("th", { scope: "col", class: numbers.includes(i) ? "number" : null }, head)))) : null,
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((content, i) => cell(i ? "td" : "th", content, i))))));
}

/** Return a number with a bar that shows its part of the largest. */
function withMeter(text, part) {
  return element("span", {}, text, element("span", { class: "meter", "aria-hidden": "true" }, element("i", { style: { width: `${100 * part}%` } })));
}
