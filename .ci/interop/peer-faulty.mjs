// A server over stdio with one fault that servers in use have. The argument names the fault.
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const fault = process.argv[2];
const write = (line) => process.stdout.write(line + "\n");
const answer = (id, result) => write(JSON.stringify({ jsonrpc: "2.0", id, result }));
const refuse = (id, code, message) => write(JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } }));
const look = { name: "look", inputSchema: { type: "object" } };
const seen = (id, text) => `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${text}"}]}}`;

/** The lists and the answers of a server without faults. */
const methods = {
  initialize: ({ id, params }) =>
    answer(id, {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {}, prompts: {}, resources: {} },
      serverInfo: { name: fault, version: "1.0.0" },
    }),
  ping: ({ id }) => answer(id, {}),
  "tools/list": ({ id }) => answer(id, { tools: [look] }),
  "prompts/list": ({ id }) => answer(id, { prompts: [] }),
  "resources/list": ({ id }) => answer(id, { resources: [] }),
  "resources/templates/list": ({ id }) => answer(id, { resourceTemplates: [] }),
  "tools/call": ({ id }) => write(seen(id, "seen")),
};

/** What a fault changes. */
const faults = {
  "failing-list": { "resources/list": ({ id }) => refuse(id, -32603, "Cannot read properties of null") },
  "hanging-list": { "resources/list": () => {} },
  "null-lists": {
    "prompts/list": ({ id }) => answer(id, { prompts: null }),
    "resources/list": ({ id }) => answer(id, { resources: null }),
    "resources/templates/list": ({ id }) => answer(id, { resourceTemplates: null }),
  },
  "empty-cursor": {
    "tools/list": ({ id }) => answer(id, { tools: [look], nextCursor: "" }),
    "resources/list": ({ id }) => answer(id, { resources: [], nextCursor: "" }),
  },
  "same-cursor": { "tools/list": ({ id }) => answer(id, { tools: [look], nextCursor: "next" }) },
  "bad-entries": { "tools/list": ({ id }) => answer(id, { tools: [7, null, { title: "no name" }, look] }) },
  "slow-start": {},
  "half-emoji": { "tools/call": ({ id }) => write(seen(id, "seen \\ud83d")) },
  "raw-control": { "tools/call": ({ id }) => write(seen(id, "seen \u0001")) },
  "invalid-utf8": {
    "tools/call": ({ id }) => process.stdout.write(Buffer.concat([Buffer.from(seen(id, "seen @").slice(0, -5)), Buffer.from([0xff]), Buffer.from('"}]}}\n')])),
  },
  "late-id": { "tools/call": ({ id }) => write(`{"result":{"content":[{"type":"text","text":"seen"}]},"jsonrpc":"2.0","id":${id}}`) },
  "late-id-raw-control": { "tools/call": ({ id }) => write(`{"result":{"content":[{"type":"text","text":"\u0001"}]},"jsonrpc":"2.0","id":${id}}`) },
  "string-id": { "tools/call": ({ id }) => write(seen(`"${id}"`, "seen")) },
  "float-id": { "tools/call": ({ id }) => write(seen(`${id}.0`, "seen")) },
  silent: {},
};
Object.assign(methods, faults[fault]);

let initialized = false;
if (fault === "slow-start") {
  await pause(6000);
}
for await (const line of createInterface(process.stdin)) {
  const message = JSON.parse(line);
  initialized ||= message.method === "initialize";
  if (message.id === undefined || (fault === "silent" && !initialized)) {
    continue;
  }
  const method = methods[message.method];
  if (method) {
    method(message);
  } else {
    refuse(message.id, -32601, "Method not found");
  }
}
