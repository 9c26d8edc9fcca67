// Chromium for tests of web pages: launch() starts it, visit() opens a page and records its
// errors.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const PROGRAM = "/usr/bin/chromium-headless-shell"; // without windows: half of the CPU time
const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const PATIENCE = 60_000; // milliseconds for whatever a test waits for

/** Starts the browser with a new profile. The caller must close it. */
export const launch = () => chromium.launch({ executablePath: PROGRAM, args: ARGUMENTS, timeout: 2 * PATIENCE });

/**
 * Opens a URL in a window of its own, with options of Playwright's newContext and before(page),
 * which is called with the page while it is empty. Returns a visit:
 *
 *   page      Playwright's
 *   troubles  what went wrong in it: exceptions, errors on its console, what its content
 *             security policy has stopped, requests to other origins
 *   urls      of all its requests
 *   sent      the frames that it has sent over WebSockets
 */
export async function visit(browser, url, { before, ...options } = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
      console.error(`stopped by the policy: ${violatedDirective} ${blockedURI}`));
  });
  const page = await context.newPage();
  const visit = { page, troubles: [], urls: [], sent: [] };
  const { host } = new URL(url);
  const requested = (to) => {
    visit.urls.push(to);
    if (new URL(to).host !== host) visit.troubles.push(`a request to ${to}`);
  };
  page.on("pageerror", (error) => visit.troubles.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") visit.troubles.push(message.text());
  });
  page.on("request", (request) => requested(request.url()));
  page.on("websocket", (socket) => {
    requested(socket.url());
    socket.on("framesent", ({ payload }) => visit.sent.push(payload));
  });
  await before?.(page);
  await page.goto(url);
  return visit;
}

/** Waits until a check passes, and fails as it does if that takes too long. */
export async function eventually(check) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof assert.AssertionError) || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
