// The widget in a page of another site.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { nodes, pageTest, taken } from './lib.mjs';

const HOST = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A page of another site</title>
<link rel="icon" href="data:,">
<script type="module" src="${nodes[0]}/page/widget.js"></script>
<boxoffice-map session="page-widget" node="${nodes[0]}" max="4"></boxoffice-map>
<script>
  window.events = [];
  for (const name of ['select', 'lost']) {
    document.querySelector('boxoffice-map').addEventListener(name, ({ detail }) => window.events.push({ name, ...detail }));
  }
</script>`;

pageTest('the widget draws in a page of another origin, and reports picked and lost seats', async (people) => {
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(HOST));
  await new Promise((resolve) => { server.listen(Number(process.env.BOXOFFICE_OTHER_PORT), '127.0.0.1', resolve); });
  try {
    const page = await people.window();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForFunction(() => document.querySelector('boxoffice-map').map?.known);
    await pickIn(page, 2, 3);
    await pickIn(page, 2, 4);
    const drawn = await page.locator('boxoffice-map').screenshot();
    assert.ok(drawn.length > 4_000, 'a map is drawn');
    await page.waitForFunction(() => window.events.at(-1)?.seats.length === 2);
    const { name, session, seats } = await page.evaluate(() => window.events.at(-1));
    assert.deepEqual([name, session, seats[0]], ['select', 'page-widget', { row: 2, seat: 3, label: 'Row C seat 4', price: { amount: 2000, currency: 'EUR' }, category: 'standard' }]);
    await taken('page-widget', [[2, 4]], 1);
    await page.waitForFunction(() => window.events.some(({ name: is }) => is === 'lost'));
    const [lost, after] = await page.evaluate(() => window.events.slice(-2));
    assert.deepEqual([lost.name, lost.seats.map(({ row, seat }) => [row, seat])], ['lost', [[2, 4]]]);
    assert.deepEqual([after.name, after.seats.map(({ row, seat }) => [row, seat])], ['select', [[2, 3]]]);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

async function pickIn(page, row, seat) {
  const at = await page.evaluate(([r, s]) => {
    const { map, plan } = document.querySelector('boxoffice-map');
    const index = plan.index([r, s]);
    const box = map.field.getBoundingClientRect();
    const [x, y] = map.picture.toScreen(plan.x[index], plan.y[index]);
    return { x: box.left + x, y: box.top + y };
  }, [row, seat]);
  await page.mouse.click(at.x, at.y);
}
