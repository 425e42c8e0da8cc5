// Puts the page together: sections, their links, the search, and the theme.

const looks = [];
const paper = matchMedia("print");

/** Call back when colours or widths change. */
function whenLookChanges(act) {
  looks.push(act);
}

function lookChanged() {
  for (const act of looks) act();
}

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  const button = document.getElementById("theme");
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
  button.onclick = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  lookChanged();
}

function start() {
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");
  main.replaceChildren();
  const begin = [];
  for (const { id, title, part, make } of sections) {
    if (part !== null && report[part] === undefined) continue;
    const first = main.childElementCount === 0;
    // The first section has the page's heading.
    const root = element("section", { id, "aria-label": title, class: ["tasks", "edges", "samples"].includes(id) ? "long" : null }, first ? null : element("h2", {}, title));
    const after = make(root, report[part]);
    if (root.childElementCount < (first ? 1 : 2)) continue;
    main.append(root);
    nav.append(element("a", { href: `#${id}` }, title));
    if (after) begin.push(after);
  }
  main.append(element("footer", {}, `Written by dagprofiler ${profile.metadata.dagprofiler_version || ""}. This file makes no network requests.`));
  document.title = `${title()} · dagprofiler report`;
  startSearch();
  const cost = report.tasks.cost || [];
  const failed = Object.keys(states).find((task) => states[task].state === "failed");
  if (failed !== undefined) choose(Number(failed), true);
  else if (cost.length) choose(cost.reduce((best, value, task) => (value > cost[best] ? task : best), 0), true);
  for (const act of begin) act();
  setTheme("auto");
  watch(nav);
}

/** Return what the page is of: the name of the profile, else the number of its tasks. */
function title() {
  const { name, host } = profile.metadata;
  const tasks = outcome(report.summary);
  return name ? `${name}: ${tasks}` : `${tasks}${host ? ` on ${host}` : ""}`;
}

function startSearch() {
  const field = document.getElementById("search");
  const shown = document.getElementById("hits");
  let at = -1;
  field.addEventListener("input", () => {
    at = -1;
    search(field.value);
    shown.textContent = hits === null ? "" : hits.size ? count(hits.size, "hit") : "no hit";
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits || !hits.size) return;
    at = (at + (event.shiftKey ? -1 : 1) + hits.size) % hits.size;
    shown.textContent = `${whole.format(at + 1)} of ${count(hits.size, "hit")}`;
    choose([...hits][at]);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && hits) searchFor("");
    if (event.key === "/" && !event.target.closest("input, select")) {
      event.preventDefault();
      field.focus();
    }
  });
}

/** Mark the link of the section that is being read, and show where there are more links. */
function watch(nav) {
  const links = new Map([...nav.children].map((link) => [link.getAttribute("href").slice(1), link]));
  const edge = () => {
    nav.classList.toggle("before", nav.scrollLeft > 4);
    nav.classList.toggle("after", nav.scrollLeft + nav.clientWidth < nav.scrollWidth - 4);
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const [id, link] of links) {
        if (id === target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const link = links.get(target.id);
      nav.scrollLeft = link.offsetLeft - nav.offsetLeft - nav.clientWidth / 3;
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) seen.observe(document.getElementById(id));
  nav.addEventListener("scroll", edge);
  whenLookChanges(edge);
  edge();
}

let wait = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(wait);
  wait = requestAnimationFrame(lookChanged);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lookChanged);
paper.addEventListener("change", lookChanged);
start();
