// Drives the approval page in a browser, against a real channel: see .ci/browser.
import { launch, visit } from "./browser.mjs";
import { Host } from "./page-host.mjs";
import * as connection from "./page-connection.mjs";
import * as decide from "./page-decide.mjs";
import * as exact from "./page-exact.mjs";
import * as facts from "./page-facts.mjs";
import * as hostile from "./page-hostile.mjs";
import * as look from "./page-look.mjs";
import * as settings from "./page-settings.mjs";

const wanted = process.argv.slice(2);
const scenarios = Object.entries({ ...exact, ...facts, ...decide, ...connection, ...settings, ...hostile, ...look })
  .filter(([name]) => wanted.length === 0 || wanted.some((part) => name.includes(part)));

const PATIENCE = 180_000; // milliseconds for a scenario

function late() {
  return new Promise((_, reject) => setTimeout(() => reject(new Error("it takes too long")), PATIENCE).unref());
}

/** Each scenario has its own host and pages, and may expect errors. */
async function run(browser, name, scenario) {
  const hosts = [];
  const visits = [];
  const stage = {
    browser,
    expected: /^$/, // of troubles
    async host(options) {
      hosts.push(await Host.start(options));
      return hosts.at(-1);
    },
    async visit(url, options) {
      visits.push(await visit(browser, url, options));
      return visits.at(-1);
    },
  };
  try {
    await Promise.race([scenario(stage), late()]);
    const troubles = visits.flatMap((v) => v.troubles).filter((trouble) => !stage.expected.test(trouble));
    if (troubles.length > 0) throw new Error(`the page is in trouble:\n${troubles.join("\n")}`);
  } catch (error) {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  } finally {
    for (const { page } of visits) await page.context().close();
    for (const host of hosts) await host.kill();
  }
}

const browser = await launch();
try {
  for (const [name, scenario] of scenarios) {
    const began = Date.now();
    await run(browser, name, scenario);
    console.log(`ok ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  }
} finally {
  await browser.close();
}
console.log(`${scenarios.length} passed, 0 failed`);
