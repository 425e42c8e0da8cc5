// Parses Mermaid diagrams with Mermaid's own parser.
// usage: node mermaid_labels.mjs NODE_MODULES FILE...
// Prints a line a file: {"vertices": {id: [line, ...]}, "edges": [[source, target, label], ...],
// "classes": {id: [class, ...]}} as a browser would show them, or {"error": message}.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, ...files] = process.argv.slice(2);
const { JSDOM } = createRequire(path.join(path.resolve(modules), 'x'))('jsdom');
const { window } = new JSDOM('');
globalThis.window = window;
globalThis.document = window.document;
const entry = path.join(path.resolve(modules), 'mermaid/dist/mermaid.core.mjs');
const mermaid = (await import(pathToFileURL(entry))).default;

// Mermaid keeps entities under marks of its own until the text is in the page.
function shown(label) {
  const page = document.createElement('div');
  page.innerHTML = label.replace(/ﬂ°°/g, '&#').replace(/ﬂ°/g, '&').replace(/¶ß/g, ';');
  const lines = [''];
  for (const child of page.childNodes) {
    if (child.nodeName === 'BR') lines.push('');
    else if (child.nodeName === '#text') lines[lines.length - 1] += child.data;
    else throw new Error(`an element of its own: ${child.outerHTML}`);
  }
  return lines;
}

for (const file of files) {
  const text = fs.readFileSync(file, 'utf8');
  let answer;
  try {
    await mermaid.parse(text);
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    const vertices = [...db.getVertices().values()];
    if (vertices.some((one) => one.labelType !== 'string')) throw new Error('a label is Markdown');
    answer = {
      vertices: Object.fromEntries(vertices.map((one) => [one.id, shown(one.text)])),
      edges: db.getEdges().map((one) => [one.start, one.end, shown(one.text)[0]]),
      classes: Object.fromEntries(vertices.map((one) => [one.id, one.classes])),
    };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  console.log(JSON.stringify(answer));
}
