// Answers the remote procedure calls of Perfetto's trace processor on standard input and output.
// usage: node trace_engine.cjs FOLDER, with engine_bundle.js and the WebAssembly in it
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const folder = process.argv[2];
const host = process;

// The bundle is a web worker: this is what it takes of a browser.
const file = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
Object.assign(globalThis, {
  self: globalThis,
  window: undefined,
  location: { href: `file://${folder}/engine_bundle.js` },
  WorkerGlobalScope: class {},
  importScripts() {},
  fetch: async (url) =>
    new Response(file(url), { headers: { 'content-type': 'application/wasm' } }),
  XMLHttpRequest: class {
    open(_, url) { this.url = url; }
    send() { this.response = new Uint8Array(file(this.url)).buffer; this.status = 200; }
  },
});
console.log = console.warn = console.error;

const port = { onmessage: null, postMessage: (bytes) => fs.writeSync(1, bytes) };
// Where there is a `process`, the bundle takes node for what it runs in.
new Function('process', fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'))(undefined);
self.onmessage({ data: port });

(async () => {
  while (!port.onmessage) await new Promise((done) => setTimeout(done, 5));
  for await (const chunk of host.stdin) port.onmessage({ data: new Uint8Array(chunk) });
  host.exit(0);
})();
