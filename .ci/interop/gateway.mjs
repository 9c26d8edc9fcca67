// Drives dovetail serve with a person in a browser: see .ci/gateway.
import assert from "node:assert/strict";
import { launch, visit } from "./browser.mjs";
import { Program } from "./gateway-program.mjs";
import * as decide from "./gateway-decide.mjs";
import * as killed from "./gateway-killed.mjs";

const wanted = process.argv.slice(2);
const scenarios = Object.entries({ ...decide, ...killed })
  .filter(([name]) => wanted.length === 0 || wanted.some((part) => name.includes(part)));

/** Each scenario has its own programs and pages, and may expect errors. */
async function run(browser, name, scenario) {
  const programs = [];
  const visits = [];
  const stage = {
    expected: /^$/, // of troubles
    async program(...options) {
      programs.push(await Program.start(...options));
      return programs.at(-1);
    },
    async visit(link) {
      visits.push(await visit(browser, link));
      return visits.at(-1);
    },
  };
  try {
    await scenario(stage);
    const troubles = visits.flatMap((v) => v.troubles).filter((trouble) => !stage.expected.test(trouble));
    assert.deepEqual(troubles, [], "the page is in trouble");
    for (const program of programs) {
      await program.stop();
      await program.verified();
      keepsSecrets(program, visits);
    }
  } catch (error) {
    throw new Error(`${name}: ${error.message}\n${programs.map((p) => p.said).join("\n")}`, { cause: error });
  } finally {
    for (const { page } of visits) await page.context().close();
    for (const program of programs) await program.kill();
  }
}

/** Tokens are printed at the start only, that of approvers also for the console, and are in no URL that is sent. */
function keepsSecrets(program, visits) {
  const approvals = program.link.split("#token=")[1];
  for (const [token, times] of [[program.token, 1], [approvals, 2]]) {
    assert.equal(program.said.split(token).length - 1, times, "a token is in the log");
    assert.ok(!program.file("journal.jsonl").includes(token), "a token is in the journal");
    assert.ok(!visits.some(({ urls }) => urls.some((url) => url.split("#")[0].includes(token))), "a token is in a URL");
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
