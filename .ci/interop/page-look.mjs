// The design of the page: light and dark, on a desktop and on a phone. Also makes the picture
// for the README.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { eventually } from "./browser.mjs";

const PHONE = { width: 390, height: 900 };
const DESK = { width: 800, height: 900 };
const LEAST_CONTRAST = 4.5; // WCAG 2.2, success criterion 1.4.3
const LEAST_TARGET = 44; // pixels

const REQUESTS = [
  {
    server: "files", tool: "write_file", caller: "ada@example.org", seconds: 287, remember: 3600,
    title: "Write file", description: "Create a new file or completely overwrite an existing file with new content.",
    destructive: true, trusted: true, rule: "changes", reason: "a person approves every change of a file",
    launch: "npx -y @modelcontextprotocol/server-filesystem /srv/www (env HOME) sha256:9f2c61d0b7e84a35c1f08e6d2a794b53e0c8d71f6a92b34c5d8e7f10a2b3c4d5",
    toolDigest: "41d7a90c3be25f68107c9d4e8a6b23f5d0e1c7b8a9463f2e5d1c0b9a8f7e6d54",
    arguments: String.raw`{"path":"/srv/www/robots.txt","content":"User-agent: *\nDisallow: /drafts/\nAllow: /","mode":420,"backup":true}`,
  },
  {
    server: "bank", tool: "transfer", caller: "ada@example.org", seconds: 22,
    title: "Transfer money", description: "Send money from your account.", destructive: false, rule: "money", reason: "money leaves the account",
    launch: "https://bank.example/mcp (headers Authorization) sha256:07b3e6f1a2c94d58e6b7c8d9f0a1b2c3d4e5f60718293a4b5c6d7e8f9a0b1c2d",
    toolDigest: "c5e1f7a3094b82d6e8f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7",
    arguments: '{"to":"ada\u200b@example.org","amount":9007199254740993,"memo":"for \u202efusion"}',
  },
];

/** Opens a page with a decided request and an open one. */
async function open(stage, requests, options) {
  const host = await stage.host();
  const { page } = await stage.visit(host.link, options);
  for (const [tool, button] of [["read_file", ".accept"], ["delete_file", ".reject"]]) {
    host.ask({ tool, caller: "ada@example.org" });
    if (button === ".reject") await page.locator(".card input").fill("that one is still needed");
    await page.locator(`.card ${button}`).click();
  }
  for (const request of requests) host.ask(request);
  const ready = page.locator(".card .accept:not([aria-disabled=true])");
  await page.evaluate(() => document.activeElement.blur());
  await page.mouse.move(1, 300);
  await eventually(async () => assert.equal(await page.locator(".proof[data-state=exact]").count(), requests.length));
  await ready.first().waitFor();
  return page;
}

/** The text with the least contrast to its background. */
const faintest = (page) => page.evaluate(() => {
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = (color) => {
    const [r, g, b] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, alpha = 1] = numbers(getComputedStyle(node).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  let least = { contrast: 21 };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = walker.nextNode()); ) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest("[aria-disabled=true]")) continue;
    const back = behind(node);
    let opacity = 1;
    for (let at = node; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
    const front = numbers(getComputedStyle(node).color).slice(0, 3).map((part, i) => part * opacity + back[i] * (1 - opacity));
    const [dark, light] = [luminance(front), luminance(back)].sort((a, b) => a - b);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < least.contrast) least = { contrast, text: text.data };
  }
  return least;
});

async function check(page, width) {
  const { contrast, text } = await faintest(page);
  assert.ok(contrast >= LEAST_CONTRAST, `${JSON.stringify(text)} has a contrast of ${contrast.toFixed(2)}`);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, "the page is wider than the screen");
}

const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

export async function looks_good(stage) {
  const day = await open(stage, REQUESTS.slice(0, 1), { viewport: DESK, colorScheme: "light" });
  await check(day, DESK.width);
  const night = await open(stage, REQUESTS.slice(1), { viewport: PHONE, colorScheme: "dark", hasTouch: true, isMobile: true });
  await check(night, PHONE.width);
  assert.notEqual(await ground(day), await ground(night));
  const sizes = await night.locator(".card button:visible:not(.plain)").evaluateAll((buttons) => buttons.map((b) => b.getBoundingClientRect().height));
  for (const height of sizes) assert.ok(height >= LEAST_TARGET, `a button has ${height} pixels`);
  if (process.env.SCREENSHOT) await picture(stage.browser, [day, night]);
}

export async function has_names_for_all(stage) {
  const page = await open(stage, REQUESTS, {});
  const nameless = await page.locator("button, input, [role=group], article, section").evaluateAll((nodes) =>
    nodes.filter((node) => !(node.ariaLabel || node.labels?.length || node.getAttribute("aria-labelledby") || node.matches("button") && node.textContent.trim()))
      .map((node) => node.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, []);
  const ids = await page.locator("[aria-labelledby]").evaluateAll((nodes) => nodes.map((node) => document.getElementById(node.getAttribute("aria-labelledby"))?.id));
  assert.ok(ids.length > 2 && ids.every(Boolean));
  assert.equal(await page.locator(".news[aria-live=polite]").count(), 1);
  assert.match(await page.locator(".news").textContent(), /New request: (files\.write_file|bank\.transfer)/);
}

/** Puts pages side by side. */
async function picture(browser, pages) {
  const context = await browser.newContext({ viewport: { width: DESK.width + PHONE.width + 72, height: DESK.height + 48 } });
  const wall = await context.newPage();
  const images = await Promise.all(pages.map(async (page) => (await page.screenshot()).toString("base64")));
  await wall.setContent(`<body style="display:flex;gap:24px;margin:24px;background:#c9d0d8">${
    images.map((image) => `<img style="border-radius:12px" src="data:image/png;base64,${image}">`).join("")}`);
  await wall.locator("img").last().evaluate((image) => image.decode());
  writeFileSync(process.env.SCREENSHOT, await wall.screenshot());
  await context.close();
}
