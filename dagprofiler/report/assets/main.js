// Puts the page together: sections, their links, and the theme.

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
    main.append(root);
    nav.append(element("a", { href: `#${id}` }, title));
    if (after) begin.push(after);
  }
  main.append(element("footer", {}, `Written by dagprofiler. This file makes no network requests.`));
  document.title = `${count(names.length, "task")}${report.about.host ? ` on ${report.about.host}` : ""} · dagprofiler report`;
  const cost = report.tasks.cost || [];
  if (cost.length) choose(cost.reduce((best, value, task) => (value > cost[best] ? task : best), 0), true);
  for (const act of begin) act();
  setTheme("auto");
  watch(nav);
}

/** Mark the link of the section that is being read. */
function watch(nav) {
  const links = new Map([...nav.children].map((link) => [link.getAttribute("href").slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const [id, link] of links) {
        if (id === target.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) seen.observe(document.getElementById(id));
}

let wait = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(wait);
  wait = requestAnimationFrame(lookChanged);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lookChanged);
paper.addEventListener("change", lookChanged);
start();
