// What is wrong with how a page looks: () => [sentence, ...].
() => {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".unseen, .skip, noscript, [aria-hidden=true]");
  const called = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""} ${JSON.stringify(element.textContent.trim().slice(0, 40))}`;
  const scrolls = (element) => /auto|scroll/.test(getComputedStyle(element).overflowX);

  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);

  // Texts: inside the window, and inside whatever hides what sticks out of it. The list of sections scrolls.
  for (const element of document.body.querySelectorAll("*")) {
    if (!seen(element) || element.closest("nav, svg, option") || ![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const range = document.createRange();
    range.selectNodeContents(element);
    const text = range.getBoundingClientRect();
    if (text.width && (text.left < -1 || text.right > width + 1)) wrong.push(`text leaves the window: ${called(element)}`);
    for (let around = element; around && around !== document.body; around = around.parentElement) {
      if (getComputedStyle(around).overflowX === "visible") continue;
      const box = around.getBoundingClientRect();
      // A space at the end of a line may hang out of it.
      const hanging = getComputedStyle(element).whiteSpaceCollapse === "preserve" ? 6 : 1;
      if (text.right > box.right + hanging || text.left < box.left - 1) wrong.push(`text is cut: ${called(element)}`);
      break;
    }
  }
  for (const box of document.querySelectorAll(".scroll, .columns > div, .pair > div, .dagprofiler")) {
    if (seen(box) && scrolls(box) && box.scrollWidth > box.clientWidth + 1) wrong.push(`scrolls sideways: ${called(box)}`);
  }

  // Boxes of a kind lie beside each other.
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  for (const kind of ["section", ".figures > div", ".columns > div", ".bars li", ".tools > *, .tools .end > *:not(.end)", ".legend li", ".canvas, .panel", "#graph .node rect", ".dagprofiler svg rect"]) {
    const boxes = [...document.querySelectorAll(kind)].filter(seen);
    const areas = boxes.map((box) => box.getBoundingClientRect());
    boxes.forEach((box, i) => boxes.slice(i + 1).forEach((other, k) => {
      if (!box.contains(other) && over(areas[i], areas[i + 1 + k])) wrong.push(`over each other: ${called(box)} and ${called(other)}`);
    }));
  }

  // Edges of the DAG go around boxes that are not their own.
  const nodes = [...document.querySelectorAll("#graph .node")].map((node) => ({ name: node.textContent, box: node.querySelector("rect").getBoundingClientRect() }));
  for (const wire of document.querySelectorAll("#graph .wire")) {
    const [matrix, length] = [wire.getScreenCTM(), wire.getTotalLength()];
    const touched = new Set();
    for (let i = 0; i <= 200; i++) {
      const { x, y } = wire.getPointAtLength((length * i) / 200).matrixTransform(matrix);
      for (const { name, box } of nodes) if (x > box.left + 1 && x < box.right - 1 && y > box.top + 1 && y < box.bottom - 1) touched.add(name);
    }
    if (touched.size > 2) wrong.push(`an edge runs behind a box: ${[...touched].join(", ")}`);
  }
  return [...new Set(wrong)];
}
