// The widget at a cluster, in a page of another site. widget.test.mjs has the rest, at nodes of its own.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { nodes, pageTest, taken } from './lib.mjs';
import { RECORDER, page as pageOf } from './shop.mjs';

const HOST = pageOf(`${RECORDER}
<script type="module" src="${nodes[0]}/page/widget.js"></script>
<boxoffice-map session="page-widget" node="${nodes[0]}" max="4"></boxoffice-map>`);

pageTest('the widget draws in a page of another origin, and reports picked and lost seats', async (people) => {
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(HOST));
  await new Promise((resolve) => { server.listen(Number(process.env.BOXOFFICE_OTHER_PORT), '127.0.0.1', resolve); });
  try {
    const page = await people.window();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => document.querySelector('boxoffice-map').state === 'ready');
    for (const seat of [3, 4]) {
      const { x, y } = await page.evaluate((at) => document.querySelector('boxoffice-map').pointOf(2, at), seat);
      await page.mouse.click(x, y);
    }
    const drawn = await page.locator('boxoffice-map').screenshot();
    assert.ok(drawn.length > 4_000, 'a map is drawn');
    // A hold at another node is a loss here.
    await taken('page-widget', [[2, 4]], 1);
    await page.waitForFunction(() => window.events.some(({ name }) => name === 'lost'));
    const told = await page.evaluate(() => window.events.map(({ name, session, seats }) => [name, session, seats.map(({ row, seat }) => `${row},${seat}`).join(' ')]));
    const both = (seats) => [['pick', 'page-widget', seats], ['select', 'page-widget', seats]];
    assert.deepEqual(told, [['ready', 'page-widget', ''], ...both('2,3'), ...both('2,3 2,4'), ['lost', 'page-widget', '2,4'], ...both('2,3')]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
