// Tables that sort by a click on a head, and filter by their texts.

const PAGE = 50;

/**
 * Return a table with its tools.
 *
 * Columns have `label`; `value(row)`, which sorts; `text(row)` or `cell(row)`, an element; and
 * `number`, whether it is one. The first is the row's head, and what the filter looks into, unless
 * `words(row)` says more.
 */
function sortable(caption, columns, rows, { sort = null, down = true, words = null, task = null } = {}) {
  const state = { sort, down, filter: "", page: 0 };
  const texts = words || ((row) => columns[0].text ? columns[0].text(row) : names[row]);
  let shown = rows;

  const heads = columns.map((column, i) => {
    const button = element("button", { type: "button" }, column.label);
    button.addEventListener("click", () => {
      state.down = state.sort === i ? !state.down : Boolean(column.number);
      state.sort = i;
      refresh();
    });
    return element("th", { scope: "col", class: column.number ? "number" : null, title: column.title }, button);
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
    if (state.sort !== null) {
      const { value } = columns[state.sort];
      const sign = state.down ? -1 : 1;
      const keyed = shown.map((row) => [value(row), row]);
      keyed.sort(([a], [b]) => {
        // Unknown values are last in either order.
        const without = (a === null || a === undefined) - (b === null || b === undefined);
        if (without) return without;
        return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
      });
      shown = keyed.map(([, row]) => row);
    }
    heads.forEach((head, i) => {
      if (state.sort === i) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    draw();
  }

  function turn(by) {
    state.page += by;
    draw();
  }

  function draw() {
    const from = state.page * PAGE;
    const page = shown.slice(from, from + PAGE);
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
      const content = column.cell ? column.cell(row) : column.text(row);
      made.append(element(i ? "td" : "th", { scope: i ? null : "row", class: column.number ? "number" : column.long ? "text" : null }, content));
    });
    if (task) {
      made.dataset.task = task(row);
      made.classList.toggle("chosen", task(row) === chosen);
    }
    return made;
  }

  if (task) {
    whenChosen((one) => {
      for (const row of body.children) row.classList.toggle("chosen", Number(row.dataset.task) === one);
    });
  }
  refresh();
  const tools = element("div", { class: "tools" },
    rows.length > 8 ? filter : null, counted,
    element("span", { class: "end pager" }, previous, next));
  const table = element("table", {}, element("caption", { class: "unseen" }, caption), element("thead", {}, element("tr", {}, heads)), body);
  return element("div", {}, tools, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${caption}, as a table` }, table));
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
