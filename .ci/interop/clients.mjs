// node clients.mjs COMMAND [full]: runs every check with every client over every transport, in the oldest version and the newest
// ones, or in every version.
import * as calls from "./client-calls.mjs";
import * as changes from "./client-changes.mjs";
import * as offer from "./client-offer.mjs";
import * as questions from "./client-questions.mjs";
import * as sdk1 from "./client-sdk1.mjs";
import * as sdk2 from "./client-sdk2.mjs";
import { serve } from "./client-server.mjs";
import * as tasks from "./client-tasks.mjs";

const checks = [offer, calls, questions, changes, tasks].flatMap((topic) => topic.checks);
const [command, full] = process.argv.slice(2);
const BETWEEN = full ? [] : ["2025-03-26", "2025-06-18"]; // left out
const LIMIT = 30_000; // ms that one check may take

let passed = 0;
let failed = 0;
const ends = []; // of servers: net/http waits up to 5 s for a connection on which nothing came yet

for (const sdk of [sdk1, sdk2, sdk2.auto]) {
  for (const [transport, versions] of Object.entries(sdk.versions)) {
    for (const version of versions.filter((version) => !BETWEEN.includes(version))) {
      for (const { name, run, from = "", until = "9", over = [transport] } of checks) {
        if (sdk === sdk2.auto && name.startsWith("tasks: ")) continue; // the same client, and each takes a second
        if (version < from || version >= until || !over.includes(transport)) continue;
        await check(`${sdk.name} ${transport} ${version}: ${name}`, sdk, transport, version, run);
      }
    }
  }
}
await Promise.all(ends);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1); // whatever a client that failed has left behind

/** Runs one check with a client and a server process of its own. */
async function check(label, sdk, transport, version, run) {
  let peer, server;
  try {
    server = await within(LIMIT, serve(command, transport));
    peer = await within(LIMIT, sdk.open(server, version));
    await within(LIMIT, run(peer, server, (capabilities) => sdk.open(server, version, capabilities)));
    passed++;
    console.log(`ok ${label}`);
  } catch (error) {
    report(label, error);
  }
  await peer?.client.close();
  ends.push(server?.stop().catch((error) => report(`${label}, and then`, error)));
}

function report(label, error) {
  failed++;
  console.log(`FAILED ${label}\n${error.stack ?? error}`);
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
