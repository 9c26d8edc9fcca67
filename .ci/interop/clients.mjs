// Runs every check with every client in every version it speaks.
import * as calls from "./client-calls.mjs";
import * as changes from "./client-changes.mjs";
import * as offer from "./client-offer.mjs";
import * as questions from "./client-questions.mjs";
import * as sdk1 from "./client-sdk1.mjs";
import * as sdk2 from "./client-sdk2.mjs";

const checks = [offer, calls, questions, changes].flatMap((topic) => topic.checks);
const command = process.argv[2];
const LIMIT = 30_000; // ms that one check may take

let passed = 0;
let failed = 0;

for (const sdk of [sdk1, sdk2, sdk2.auto]) {
  for (const version of sdk.versions) {
    for (const { name, run, from = "", until = "9" } of checks) {
      if (version < from || version >= until) continue;
      await check(`${sdk.name} ${version}: ${name}`, sdk, version, run);
    }
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1); // whatever a client that failed has left behind

/** Runs one check with a client and a server process of its own. */
async function check(label, sdk, version, run) {
  let peer;
  try {
    peer = await within(LIMIT, sdk.open(command, version));
    await within(LIMIT, run(peer, (capabilities) => sdk.open(command, version, capabilities)));
    passed++;
    console.log(`ok ${label}`);
  } catch (error) {
    failed++;
    console.log(`FAILED ${label}\n${error.stack ?? error}`);
  } finally {
    await peer?.client.close();
  }
}

/** Fails when a promise takes longer than ms. */
async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing happened for ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
