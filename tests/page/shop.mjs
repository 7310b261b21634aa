// A shop of another origin that shows the widget: its pages, its programs with React and Vue, and its server.

import { createServer } from 'node:http';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { freePort } from './own.mjs';

/** A page of a shop. */
export const page = (body) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A page of another site</title>
<link rel="icon" href="data:,">
${body}`;

/** Keeps all events of the map in `window.events`. */
export const RECORDER = `<script>
  window.events = [];
  for (const name of ['ready', 'pick', 'select', 'lost', 'fault']) {
    addEventListener(name, ({ detail }) => detail && window.events.push({ name, at: Date.now(), ...detail }), true);
  }
</script>`;

/** A program as one script, as a shop's own build makes it. */
export async function bundled(source, loader = 'jsx') {
  const { outputFiles } = await build({
    stdin: { contents: source, resolveDir: fileURLToPath(new URL('.', import.meta.url)), loader },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    alias: { vue: 'vue/dist/vue.esm-bundler.js' },
    define: {
      'process.env.NODE_ENV': '"production"',
      __VUE_OPTIONS_API__: 'true', __VUE_PROD_DEVTOOLS__: 'false', __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false',
    },
  });
  return outputFiles[0].text;
}

/** A shop's server. `serve(path, html)` adds a page, and `answer(path, respond)` a path with an answer to a body. */
export class Shop {
  constructor() {
    this.paths = new Map();
    this.server = createServer(async (request, response) => {
      const respond = this.paths.get(new URL(request.url, this.origin).pathname);
      if (!respond) {
        response.writeHead(404).end();
        return;
      }
      let body = '';
      for await (const part of request) body += part;
      const { status = 200, type = 'text/html', text } = await respond(body);
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
    });
  }

  async open() {
    this.port = await freePort();
    this.origin = `http://127.0.0.1:${this.port}`;
    await new Promise((resolve) => { this.server.listen(this.port, '127.0.0.1', resolve); });
    return this;
  }

  serve(path, html) {
    this.paths.set(path, () => ({ text: html }));
  }

  script(path, text) {
    this.paths.set(path, () => ({ type: 'text/javascript', text }));
  }

  answer(path, respond) {
    this.paths.set(path, respond);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** Sends a request to a node over HTTP. Returns its status and JSON. */
export async function ask(node, op, body) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomBytes(12).toString('hex') };
  const response = await fetch(`${node}/v1/${op}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}

/** Holds something for another buyer. */
export async function takenBy(node, body) {
  const token = randomBytes(16).toString('hex');
  const { status, json } = await ask(node, body.area ? 'cart.hold_places' : 'cart.hold_seats', { token, ...body });
  if (status !== 200) throw new Error(JSON.stringify(json));
  return token;
}
