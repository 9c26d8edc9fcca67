// Lists entries that are not valid with the clients of the TypeScript SDK, directly and through dovetail: serve and relay.
//
//	node client-entries.mjs DOVETAIL ENTRIES.json FOLDER
import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { Client as Client2 } from "@modelcontextprotocol/client";
import * as sdk1 from "./client-sdk1.mjs";
import * as sdk2 from "./client-sdk2.mjs";
import { answerTo, LISTS } from "./entries.mjs";

const [dovetail, file, folder] = process.argv.slice(2);
const rows = JSON.parse(readFileSync(file, "utf8"));

/** The methods of the clients. */
const METHODS = {
  "tools/list": "listTools",
  "prompts/list": "listPrompts",
  "resources/list": "listResources",
  "resources/templates/list": "listResourceTemplates",
};

/** A transport to a server in this process that lists one entry and a good one. */
class OneEntry {
  constructor(member, entry) {
    this.entries = { [member]: [entry] };
  }
  async start() {}
  async close() {
    this.onclose?.();
  }
  async send(message) {
    const answer = answerTo(this.entries, message);
    if (answer) queueMicrotask(() => this.onmessage?.(answer));
  }
}

/** Reports whether a client accepts a list with one entry. */
async function accepts(client, method, entry) {
  await client.connect(new OneEntry(LISTS[method].member, entry));
  try {
    await client[METHODS[method]]();
    return true;
  } catch {
    return false;
  } finally {
    await client.close();
  }
}

// What the clients do without dovetail. A row that both accept proves nothing, and there are few.
const warn = console.warn; // ajv warns of formats
console.warn = () => {};
let harmless = 0;
let refused = 0;
for (const [method, { member }] of Object.entries(LISTS)) {
  for (const { entry } of rows[member]) {
    const one = await accepts(new Client1({ name: "c", version: "1" }), method, entry);
    const two = await accepts(new Client2({ name: "c", version: "1" }), method, entry);
    one && two ? harmless++ : refused++;
    if (one || two) console.log(`alone: only ${one ? (two ? "no client" : "client 2.x") : "sdk 1.x"} refuses ${method} with ${JSON.stringify(entry)}`);
  }
}
console.warn = warn;
console.log(`alone: ${refused} entries make a client refuse the list, ${harmless} do not`);
assert.ok(refused > 5 * harmless, "the clients accept many of the entries");

/** Writes a program that starts another one with arguments: transports start a program without any. */
function program(name, ...command) {
  const path = join(folder, name);
  const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  writeFileSync(path, `#!/bin/sh\nexec ${quoted.join(" ")}\n`);
  chmodSync(path, 0o755);
  return { transport: "stdio", command: path };
}

const server = [process.execPath, join(import.meta.dirname, "entries-server.mjs"), file];
const config = join(folder, "entries.json");
writeFileSync(config, JSON.stringify({ mcpServers: { bad: { command: server[0], args: server.slice(1) } } }));
const faces = {
  serve: program("serve", dovetail, "serve", "-config", config),
  relay: program("relay", dovetail, "relay", "--", ...server),
};

let passed = 0;
for (const [face, to] of Object.entries(faces)) {
  for (const sdk of [sdk1, sdk2]) {
    for (const version of sdk.versions.stdio) {
      const { client } = await sdk.open(to, version);
      try {
        for (const [method, { member, id, good }] of Object.entries(LISTS)) {
          const result = await client[METHODS[method]]();
          const want = [good, ...rows[member].filter(({ kept }) => kept).map(({ entry }) => entry)].map((entry) => entry[id]);
          const got = result[member].map((entry) => (id === "name" ? entry.name.replace("bad__", "") : entry[id]));
          assert.deepEqual(got.sort(), want.sort(), `${face}, ${sdk.name} ${version}, ${method}`);
          passed++;
        }
        console.log(`ok ${face}, ${sdk.name} ${version}`);
      } finally {
        await client.close();
      }
    }
  }
}
console.log(`${passed} lists are accepted`);
process.exit(0);
