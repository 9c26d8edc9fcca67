// Shows the view of examples/shop in a host in a browser, from the shop and through a bridge: see
// .ci/apps. The arguments are the programs of both.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually, launch, visit } from "./browser.mjs";

const [shop, dovetail] = process.argv.slice(2);
const { work } = process.env;
const config = join(work, "mcp.json");
await writeFile(config, JSON.stringify({ mcpServers: { shop: { command: shop, dovetail: { required: true } } } }));

/** Starts a program that serves HTTP. */
async function serve(...command) {
  const child = spawn(command[0], [...command.slice(1), "-http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  const url = Promise.withResolvers();
  createInterface({ input: child.stderr }).on("line", (line) => {
    const [found] = line.match(/http:\/\/[0-9.:]+\/mcp/) ?? [];
    if (found) url.resolve(new URL(found));
  });
  child.once("exit", () => url.reject(new Error(`${command[0]} has ended`)));
  return { child, url: await url.promise };
}

let server; // URL of the server of a test

// One origin has the page of the host and the server, since the server allows no other.
const called = []; // bodies of requests to the server
const script = await readFile(join(work, "host.js"));
const web = createServer((req, res) => {
  if (req.url === "/") return res.setHeader("Content-Type", "text/html").end('<!doctype html><link rel="icon" href="data:,"><script type="module" src="/host.js"></script><body>');
  if (req.url === "/host.js") return res.setHeader("Content-Type", "text/javascript").end(script);
  const body = [];
  req.on("data", (part) => body.push(part)).on("end", () => {
    called.push(Buffer.concat(body).toString());
    const forwarded = request(server, { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    forwarded.on("error", () => res.destroy());
    res.on("close", () => forwarded.destroy());
    forwarded.end(Buffer.concat(body));
  });
});
web.listen(0, "127.0.0.1");
await once(web, "listening");
const url = `http://127.0.0.1:${web.address().port}/`;

const calls = () => called.filter((body) => body && JSON.parse(body).method === "tools/call").map((body) => JSON.parse(body).params);

async function showsCart(browser, tool, version) {
  const { page, troubles } = await visit(browser, url, { colorScheme: "light" });
  await page.waitForFunction(() => globalThis.host);
  const tools = await page.evaluate((version) => host.connect(version), version);
  assert.deepEqual(tools.filter(({ view }) => view), [{ name: tool, view: "ui://shop/cart", appOnly: false }]);

  const app = await page.evaluate((tool) => host.show(tool, { items: [{ item: 2, quantity: 11 }, { item: 5, quantity: 1 }] }), tool);
  assert.deepEqual(app, { name: "cart", version: "1.0.0" });
  const view = page.frameLocator("iframe");
  const rows = async (...want) => eventually(async () => assert.deepEqual(await view.locator("tr").allInnerTexts(), want));
  const row = (...cells) => cells.join("\t");
  await rows(row("Baguette", "−11+", "19.80 €"), row("Honey", "−1+", "8.50 €"), row("Total", "", "28.30 €"));
  const style = await view.locator("body").evaluate((body) => [getComputedStyle(body).color, getComputedStyle(body).colorScheme]);
  assert.deepEqual(style, ["rgb(230, 220, 200)", "dark"]);

  // A button calls the tool through the host. The model gets the new cart.
  const before = calls().length;
  await view.getByRole("button", { name: "more Baguette" }).click();
  await rows(row("Baguette", "−12+", "21.60 €"), row("Honey", "−1+", "8.50 €"), row("Total", "", "30.10 €"));
  assert.deepEqual(calls().slice(before).map(({ name, arguments: args }) => ({ name, args })),
    [{ name: tool, args: { items: [{ item: 2, quantity: 12 }, { item: 5, quantity: 1 }] } }]);
  await eventually(async () => assert.equal((await page.evaluate(() => host.contexts))[0]?.structuredContent.total, 3010));

  // The error of a tool is shown, and the cart stays.
  await view.getByRole("button", { name: "more Baguette" }).click();
  await eventually(async () => assert.match(await view.getByRole("alert").innerText(), /only 12 of "Baguette" are in stock/));
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT });

  // A line without pieces goes away, and the view becomes smaller.
  const height = (await page.evaluate(() => host.sizes)).at(-1).height;
  await view.getByRole("button", { name: "less Honey" }).click();
  await rows(row("Baguette", "−12+", "21.60 €"), row("Total", "", "21.60 €"));
  assert.equal(await view.getByRole("alert").isVisible(), false);
  await eventually(async () => assert.ok((await page.evaluate(() => host.sizes)).at(-1).height < height));
  assert.equal((await page.locator("iframe").boundingBox()).height > 40, true);

  await page.evaluate(() => host.end());
  await page.context().close();
  assert.deepEqual(troubles, []);
}

const browser = await launch();
try {
  for (const [tool, ...command] of [["cart", shop], ["shop__cart", dovetail, "serve", "-open", "-config", config]]) {
    const { child, url } = await serve(...command);
    server = url;
    try {
      for (const version of ["2026-07-28", "2025-11-25", "2025-06-18"]) {
        await showsCart(browser, tool, version);
        console.log(`ok ${tool}, ${version}`);
      }
    } finally {
      child.kill();
      await once(child, "exit");
    }
  }
} finally {
  await browser.close();
  web.closeAllConnections();
  web.close();
}
