// Uses servers with faults through dovetail serve, the Playwright MCP server directly and through
// dovetail serve, and servers of this module through programs of others: mcp-remote, MCP Inspector
// and supergateway.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text as readAll } from "node:stream/consumers";
import { freePort } from "./free-port.mjs";

const { bin, work } = process.env;
const here = import.meta.dirname;
const ERAS = ["modern", "legacy"];

/** The text that a server with a fault answers, or "fails" if its call must fail soon. */
const FAULTS = {
  "failing-list": "seen",
  "hanging-list": "seen",
  "null-lists": "seen",
  "empty-cursor": "seen",
  "same-cursor": "seen",
  "bad-entries": "seen",
  "slow-start": "seen",
  silent: "seen",
  "half-emoji": "seen \ud83d",
  "raw-control": "fails",
  "invalid-utf8": "seen @\ufffd",
  "late-id": "seen",
  "late-id-raw-control": "fails",
  "string-id": "seen",
  "float-id": "seen",
};

let passed = 0;
async function check(name, body) {
  await body();
  passed++;
  console.log(`ok ${name}`);
}

/** Runs a program to its end, and returns its exit status and output. */
function run(command, args, timeout = 60_000) {
  const ran = spawnSync(command, args, { encoding: "utf8", timeout, input: "" });
  return { status: ran.status, out: ran.stdout, said: ran.stderr };
}

/** Runs dovetail, and returns the printed document. */
function dovetail(...args) {
  const { status, out, said } = run(join(bin, "dovetail"), args);
  assert.equal(status, 0, `dovetail ${args.join(" ")}: exit ${status}\n${out}${said}`);
  return JSON.parse(out);
}

/** Types lines to a session of dovetail while this program serves, and returns the printed documents. */
async function session(lines, ...args) {
  const child = spawn(join(bin, "dovetail"), ["-timeout", "120s", ...args], { stdio: ["pipe", "pipe", "ignore"] });
  child.stdin.end(lines.join("\n") + "\n");
  const out = await readAll(child.stdout);
  return out.split(/(?<=^\})\n/m).filter(Boolean).map((document) => JSON.parse(document));
}

/** Runs a program of npm, and returns the printed document. */
function node(program, ...args) {
  const { status, out, said } = run("node", [join(here, "node_modules/.bin", program), ...args]);
  assert.equal(status, 0, `${program} ${args.join(" ")}: exit ${status}\n${out}${said}`);
  return JSON.parse(out);
}

/** Starts a program that serves HTTP, and returns its address and a function that stops it. */
async function serve(command, ...args) {
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  const exit = once(child, "exit");
  const end = async () => {
    child.kill("SIGTERM");
    await exit;
  };
  let url, said = "";
  for await (const line of createInterface(child.stderr)) {
    said += `${line}\n`;
    if ((url = /http:\/\/[0-9.:]+\/mcp/.exec(line)?.[0])) break;
  }
  assert.ok(url, `${command} has ended: ${said}`);
  child.stderr.resume();
  return { url, end };
}

const text = (result) => result.content[0].text;
const names = (list) => list.map((entry) => entry.name);

/** Servers with faults. */
async function faults() {
  const mcpServers = {};
  for (const fault of Object.keys(FAULTS)) {
    mcpServers[fault] = { command: process.execPath, args: [join(here, "peer-faulty.mjs"), fault] };
  }
  const config = join(work, "faults.json");
  writeFileSync(config, JSON.stringify({ mcpServers }));
  const { url, end } = await serve(join(bin, "dovetail"), "serve", "-config", config, "-http", "127.0.0.1:0", "-open");
  try {
    for (const era of ERAS) {
      await check(`faults, ${era}: the first list has all tools`, () => {
        assert.deepEqual(names(dovetail("-era", era, "tools", url).tools), Object.keys(FAULTS).map((fault) => `${fault}__look`));
      });
      for (const [fault, want] of Object.entries(FAULTS)) {
        await check(`faults, ${era}: ${fault}`, () => {
          const args = ["-era", era, "-timeout", "20s", "call", url, `${fault}__look`];
          if (want !== "fails") {
            assert.equal(text(dovetail(...args)), want);
            return;
          }
          const { status, out, said } = run(join(bin, "dovetail"), args);
          assert.equal(status, 1, out + said);
          assert.match(said, /cannot be understood; the call may have been executed/); // and not that time is over
        });
      }
    }
  } finally {
    await end();
  }
}

/** The Playwright MCP server with a page that this program serves. */
async function browser() {
  const web = createServer((request, response) => {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end("<title>Party</title><h1>Two \u{1f389}</h1>");
  }).listen(0, "127.0.0.1");
  await once(web, "listening");
  const server = {
    command: process.execPath,
    args: [join(here, "node_modules/.bin/playwright-mcp"), "--executable-path", "/usr/bin/chromium-headless-shell", "--headless", "--no-sandbox", "--isolated"],
  };
  const config = join(work, "browser.json");
  writeFileSync(config, JSON.stringify({ mcpServers: { browser: server } }));
  const { url, end } = await serve(join(bin, "dovetail"), "serve", "-config", config, "-http", "127.0.0.1:0", "-open");

  const use = (where, prefix, ...args) =>
    check(where, async () => {
      const call = (tool, input) => `call ${prefix}browser_${tool} ${JSON.stringify(input)}`;
      const [list, opened, page, missing, closed] = await session([
        "tools",
        call("navigate", { url: `http://127.0.0.1:${web.address().port}/` }),
        call("snapshot", {}),
        call("snapshot", { target: "half \ud83d" }), // the error repeats the half of an emoji
        call("close", {}),
      ], ...args);
      assert.ok(names(list.tools).includes(`${prefix}browser_snapshot`));
      assert.match(text(opened), /Page Title: Party/);
      assert.match(text(page), /heading "Two \u{1f389}"/u);
      assert.ok(missing.isError);
      assert.match(text(missing), /"half \ud83d" does not match/);
      assert.match(text(closed), /No open tabs/);
    });
  try {
    await use("browser", "", "session", "--", server.command, ...server.args);
    for (const era of ERAS) {
      await use(`browser, bridge, ${era}`, "browser__", "-era", era, "session", url);
    }
  } finally {
    await end();
    web.close();
  }
}

/** Programs of others that connect to a server over HTTP. */
async function clients() {
  const { url, end } = await serve(join(bin, "everything"), "-http", "127.0.0.1:0");
  const inspector = ["mcp-inspector", "--cli", url, "--transport", "http", "--method"];
  try {
    await check("Inspector: tools/list", () => {
      assert.ok(names(node(...inspector, "tools/list").tools).includes("test_simple_text"));
    });
    await check("Inspector: tools/call", () => {
      assert.match(text(node(...inspector, "tools/call", "--tool-name", "test_simple_text")), /simple text/);
    });
    await check("Inspector: resources/list", () => {
      assert.ok(node(...inspector, "resources/list").resources.length > 0);
    });
    await check("Inspector: prompts/list", () => {
      assert.ok(names(node(...inspector, "prompts/list").prompts).includes("test_simple_prompt"));
    });
    for (const transport of ["http-only", "sse-only"]) {
      const at = transport === "sse-only" ? url.replace(/mcp$/, "sse") : url;
      const remote = ["--", "node", join(here, "node_modules/.bin/mcp-remote"), at, "--allow-http", "--transport", transport];
      await check(`mcp-remote, ${transport}: tools`, () => {
        assert.ok(names(dovetail("tools", ...remote).tools).includes("test_simple_text"));
      });
      await check(`mcp-remote, ${transport}: call`, () => {
        assert.match(text(dovetail("call", "test_simple_text", ...remote)), /simple text/);
      });
    }
  } finally {
    await end();
  }
}

/** A proxy that shares one child among its clients, and forwards the initialize of each. */
async function proxy() {
  const port = await freePort();
  const args = [join(here, "node_modules/.bin/supergateway"), "--stdio", join(bin, "everything"), "--outputTransport", "sse", "--port", String(port)];
  const child = spawn("node", args, { stdio: ["pipe", "pipe", "inherit"] }); // it ends with its input
  const exit = once(child, "exit");
  try {
    for await (const line of createInterface(child.stdout)) {
      if (line.includes(`Listening on port ${port}`)) {
        break;
      }
    }
    child.stdout.resume();
    for (const client of ["first", "second", "third"]) {
      await check(`supergateway: the ${client} client`, () => {
        const result = dovetail("-era", "legacy", "call", `http://127.0.0.1:${port}/sse`, "test_simple_text");
        assert.match(text(result), /simple text/);
      });
    }
  } finally {
    child.kill("SIGTERM");
    await exit;
  }
}

await faults();
await browser();
await clients();
await proxy();
console.log(`${passed} passed, 0 failed`);
