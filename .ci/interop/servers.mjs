// Checks what bridge/cmd/dovetail prints, and how it exits, on real servers.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./free-port.mjs";

const { bin, work } = process.env;
const files = join(work, "files");
mkdirSync(files);
writeFileSync(join(files, "a.txt"), "hello\n");

const server = (name, ...args) => ["node", join(import.meta.dirname, "node_modules/.bin", `mcp-server-${name}`), ...args];
const everything = server("everything");
const filesystem = server("filesystem", files);
const memory = server("memory");

let passed = 0;

const verbs = ["info", "tools", "resources", "templates", "prompts", "call", "read", "prompt", "complete", "ping"];

/**
 * Runs dovetail with a command or a URL, which follows the verb. Checks its exit status, where 1 is any
 * failure of dovetail, and returns its output.
 */
function run(args, target, status = 0) {
  const verb = args.findIndex((arg) => verbs.includes(arg)) + 1;
  const line = typeof target === "string" ? [...args.slice(0, verb), target, ...args.slice(verb)] : [...args, "--", ...target];
  const ran = spawnSync(join(bin, "dovetail"), line, {
    encoding: "utf8",
    timeout: 60_000,
    env: { ...process.env, MEMORY_FILE_PATH: join(work, "memory.json") },
  });
  assert.equal(status === 1 && [3, 4, 5].includes(ran.status) ? 1 : ran.status, status, `dovetail ${args.join(" ")}: exit ${ran.status}\n${ran.stdout}${ran.stderr}`);
  if (status === 1) {
    assert.equal(ran.stdout, "");
    assert.notEqual(ran.stderr, "");
  }
  return ran;
}

/** Runs dovetail; returns the printed document, or its error. */
function dovetail(args, target, status = 0) {
  const { stdout, stderr } = run(args, target, status);
  return status === 1 ? stderr : JSON.parse(stdout);
}

function check(name, body) {
  body();
  passed++;
  console.log(`ok ${name}`);
}

const text = (result) => result.content[0].text;
const names = (list) => list.map((entry) => entry.name);

/** Starts the everything server over HTTP; returns its port and a function that stops it. */
async function listen(mode) {
  const [command, ...args] = [...everything, mode];
  const port = await freePort();
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, PORT: String(port) } });
  const exit = once(child, "exit");
  let listens = false, said = "";
  for await (const line of createInterface(child.stderr)) {
    said += `${line}\n`;
    if ((listens = line.endsWith(` on port ${port}`))) break;
  }
  assert.ok(listens, `everything ${mode} has ended: ${said}`);
  child.stderr.resume();
  return { port, end: () => child.kill() && exit };
}

checkEverything("everything", everything);
for (const [mode, path] of [["streamableHttp", "/mcp"], ["sse", "/sse"]]) {
  const { port, end } = await listen(mode);
  try {
    checkEverything(`everything ${mode}`, `http://127.0.0.1:${port}${path}`);
    check(`everything ${mode}: a path where there is no server says so`, () => {
      assert.match(dovetail(["tools"], `http://127.0.0.1:${port}/nothing`, 1), /404/);
    });
  } finally {
    await end();
  }
}

/** Checks an everything server. */
function checkEverything(where, at) {
  check(`${where}: info`, () => {
    const info = dovetail(["info"], at);
    assert.equal(info.serverInfo.name, "mcp-servers/everything");
    assert.equal(info.protocolVersion, "2025-11-25");
  });
  for (const era of ["auto", "legacy"]) {
    check(`${where}: tools, era ${era}`, () => {
      assert.ok(names(dovetail(["-era", era, "tools"], at).tools).includes("get-sum"));
    });
  }
  check(`${where}: a server without the modern era says so`, () => {
    dovetail(["-era", "modern", "tools"], at, 1);
  });
  check(`${where}: call`, () => {
    assert.equal(text(dovetail(["call", "get-sum", '{"a":2,"b":3}'], at)), "The sum of 2 and 3 is 5.");
  });
  check(`${where}: call with progress`, () => {
    const { stdout, stderr } = run(["-verbose", "call", "trigger-long-running-operation", '{"duration":1,"steps":2}'], at);
    assert.match(text(JSON.parse(stdout)), /completed/);
    const told = stderr.split("\n").filter((line) => line.startsWith("← ") && line.includes('"notifications/progress"'));
    assert.equal(told.length, 2, stderr);
  });
  check(`${where}: structured content`, () => {
    const result = dovetail(["call", "get-structured-content", '{"location":"New York"}'], at);
    assert.equal(typeof result.structuredContent.temperature, "number");
  });
  check(`${where}: a tool's error exits with 2`, () => {
    assert.equal(dovetail(["call", "get-sum", '{"a":"two","b":3}'], at, 2).isError, true);
  });
  check(`${where}: elicitation without a terminal is declined`, () => {
    assert.match(text(dovetail(["call", "trigger-elicitation-request"], at)), /declined/);
  });
  check(`${where}: resources and templates`, () => {
    assert.ok(dovetail(["resources"], at).resources.length > 0);
    const { resourceTemplates } = dovetail(["templates"], at);
    assert.ok(resourceTemplates.some((t) => t.uriTemplate === "demo://resource/dynamic/text/{resourceId}"));
  });
  check(`${where}: read`, () => {
    const { contents } = dovetail(["read", "demo://resource/dynamic/text/1"], at);
    assert.match(contents[0].text, /^Resource 1:/);
  });
  check(`${where}: read of what is not there exits with 1`, () => {
    dovetail(["read", "demo://nothing"], at, 1);
  });
  check(`${where}: prompts`, () => {
    assert.ok(names(dovetail(["prompts"], at).prompts).includes("args-prompt"));
    const { messages } = dovetail(["prompt", "args-prompt", '{"city":"Rome"}'], at);
    assert.equal(messages[0].content.text, "What's weather in Rome?");
  });
  check(`${where}: completion of a prompt's argument`, () => {
    const { completion } = dovetail(["complete", "prompt", "completable-prompt", "department", "E"], at);
    assert.deepEqual(completion.values, ["Engineering"]);
  });
  check(`${where}: completion of a template's variable`, () => {
    const args = ["complete", "resource", "demo://resource/dynamic/text/{resourceId}", "resourceId", "1"];
    assert.deepEqual(dovetail(args, at).completion.values, ["1"]);
  });
  check(`${where}: ping`, () => assert.deepEqual(dovetail(["ping"], at), {}));
}

check("filesystem: tools", () => {
  assert.ok(names(dovetail(["tools"], filesystem).tools).includes("read_text_file"));
});
check("filesystem: call", () => {
  const result = dovetail(["call", "read_text_file", JSON.stringify({ path: join(files, "a.txt") })], filesystem);
  assert.equal(text(result), "hello\n");
});
check("filesystem: outside its directory is a tool's error", () => {
  assert.match(text(dovetail(["call", "read_text_file", '{"path":"/etc/passwd"}'], filesystem, 2)), /denied/);
});

check("memory: what is written is read again", () => {
  const ada = { name: "Ada", entityType: "person", observations: ["baker"] };
  dovetail(["call", "create_entities", JSON.stringify({ entities: [ada] })], memory);
  assert.deepEqual(dovetail(["call", "read_graph"], memory).structuredContent, { entities: [ada], relations: [] });
});

check("a server that cannot be started exits with 1", () => {
  dovetail(["tools"], [join(work, "no-such-program")], 1);
});
const nobody = await freePort();
check("a URL where nobody listens exits with 1", () => {
  assert.match(dovetail(["tools"], `http://127.0.0.1:${nobody}/mcp`, 1), /refused/);
});
check("a server that ends at once exits with 1 and says how", () => {
  assert.match(dovetail(["tools"], ["node", "-e", "console.error('bye'); process.exit(3)"], 1), /exit status 3.*bye/s);
});

console.log(`${passed} passed, 0 failed`);
