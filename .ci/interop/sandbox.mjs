// A coding session in bridge/cmd/sandbox, with the client of @modelcontextprotocol/client 2.x
// over HTTP, and once more with bridge/cmd/dovetail over stdio: see .ci/sandbox.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { freePort } from "./free-port.mjs";
import { Program, args } from "./sandbox-program.mjs";

const { bin, work } = process.env;
let passed = 0;

async function check(name, body) {
  try {
    const result = await body();
    console.log(`ok ${name}`);
    passed++;
    return result;
  } catch (error) {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  }
}

const BAKERY = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func price(loaves int) int { return loaves + 3 }

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<title>Bakery</title><h1>Two loaves are %d francs</h1>", price(2))
	})
	fmt.Println(http.ListenAndServe(os.Args[1], nil))
}
`;

const BAKERY_TEST = `package main

import "testing"

func TestPrice(t *testing.T) {
	if got := price(2); got != 6 {
		t.Errorf("two loaves are %d francs, want 6", got)
	}
}
`;

const text = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");

/** Writes a program, tests it, fixes it, commits it, serves it and opens it in the browser. */
async function code(where, call, port) {
  const ok = async (tool, input) => {
    const result = await call(tool, input);
    assert.ok(!result.isError, `${tool}: ${text(result)}`);
    return result;
  };
  await check(`${where}: plan`, () =>
    ok("todo_write", { todos: [{ id: "1", content: "bake", status: "in_progress", priority: "high" }, { id: "2", content: "sell", status: "pending" }] }));
  await check(`${where}: create files`, async () => {
    await ok("create_directory", { path: "bakery" });
    await ok("write_file", { path: "bakery/go.mod", content: "module bakery\n\ngo 1.26\n" });
    await ok("write_file", { path: "bakery/main.go", content: BAKERY });
    await ok("write_file", { path: "bakery/main_test.go", content: BAKERY_TEST });
    assert.equal(text(await ok("list_directory", { path: "bakery" })), "go.mod\nmain.go\nmain_test.go\n");
    assert.match(text(await ok("search_files", { pattern: "**/*_test.go" })), /^bakery\/main_test\.go$/m);
  });
  await check(`${where}: a test that fails`, async () => {
    const { exit_code, stdout } = JSON.parse(text(await ok("run_command", { command: "cd bakery && go test ./...", timeout: 150 })));
    assert.equal(exit_code, 1);
    assert.match(stdout, /two loaves are 5 francs, want 6/);
  });
  await check(`${where}: find the mistake, and mend it`, async () => {
    assert.equal(text(await ok("search_content", { pattern: "loaves \\+ \\d", include: "*.go" })), "bakery/main.go:9: func price(loaves int) int { return loaves + 3 }\n");
    assert.match(text(await ok("read_file", { path: "bakery/main.go", offset: 9, limit: 1 })), /^ {5}9\tfunc price/);
    await ok("edit_file", { path: "bakery/main.go", old_string: "loaves + 3", new_string: "loaves * 3" });
    await ok("multi_edit", { path: "bakery/main.go", edits: [
      { old_string: "<title>Bakery</title>", new_string: "<title>The bakery</title><button>Order</button>" },
      { old_string: "Two loaves are", new_string: "Two loaves cost" },
    ] });
  });
  await check(`${where}: the tests pass`, async () => {
    const { exit_code, stdout } = JSON.parse(text(await ok("run_command", { command: "cd bakery && go vet ./... && go test ./...", timeout: 150 })));
    assert.equal(exit_code, 0, stdout);
  });
  await check(`${where}: commit`, async () => {
    assert.match(text(await ok("git_commit", { message: "A bakery" })), /A bakery[^]*bakery\/main\.go/);
    assert.match(text(await ok("git_status", {})), /^## \S+\s*$/);
    assert.match(text(await ok("git_log", {})), /: A bakery\n$/);
    await ok("edit_file", { path: "bakery/go.mod", old_string: "go 1.26", new_string: "go 1.26.0" });
    assert.match(text(await ok("git_diff", { paths: ["bakery"] })), /^-go 1\.26$/m);
  });
  const job = await check(`${where}: serve a page`, async () => {
    const { id } = JSON.parse(text(await ok("run_background", { command: `cd bakery && go build -o server . && exec ./server 127.0.0.1:${port}` })));
    return id;
  });
  const url = await check(`${where}: register its port`, async () => {
    for (let tries = 1; ; tries++) {
      const result = await call("register_port", { port });
      if (!result.isError) return JSON.parse(text(result)).url;
      assert.ok(tries < 10, text(result)); // it is built first
    }
  });
  await check(`${where}: look at the page`, async () => {
    assert.match(text(await ok("browser_navigate", { url })), /Page Title: The bakery/);
    const page = text(await ok("browser_snapshot", {}));
    assert.match(page, /heading "Two loaves cost 6 francs"/);
    await ok("browser_click", { element: "the button", target: /button "Order" \[ref=(\w+)\]/.exec(page)[1] });
    assert.match(text(await ok("browser_evaluate", { function: "() => 6 * 7" })), /42/);
  });
  await check(`${where}: read the files of the browser`, async () => {
    for (const [tool, args, name, content] of [
      ["browser_navigate", { url }, /^page-.+\.yml$/, /heading "Two loaves/],
      ["browser_snapshot", { filename: "shots/page.yml" }, /^shots\/page\.yml$/, /heading "Two loaves/],
      ["browser_evaluate", { function: "() => 6 * 7", filename: "answer.json" }, /^answer\.json$/, /42/],
      ["browser_evaluate", { function: "() => console.error('burnt')" }, /^console-.+\.log$/, /burnt/],
      ["browser_evaluate", { function: "() => { const a = document.createElement('a'); a.href = URL.createObjectURL(new Blob(['a loaf'])); a.download = 'loaf.txt'; a.click(); }" }, /^loaf\.txt$/, /a loaf/],
    ]) {
      let result = text(await ok(tool, args));
      for (let tries = 0; !result.includes(".browser/") && tries < 20; tries++) { // the end of a download is in a later result
        result = text(await ok("browser_evaluate", { function: "() => new Promise((resolve) => setTimeout(resolve, 50))" }));
      }
      const [, path] = /[(": ]\.browser\/([^)"#]+)/.exec(result);
      assert.match(path, name);
      assert.match(text(await ok("read_file", { path: `.browser/${path}` })), content);
    }
    assert.doesNotMatch(text(await ok("git_status", {})), /\.browser/);
  });
  await check(`${where}: take a screenshot`, async () => {
    const { content } = await ok("browser_take_screenshot", {});
    const { data, mimeType } = content.find((block) => block.type === "image");
    const picture = Buffer.from(data, "base64");
    assert.equal(mimeType, "image/png");
    assert.equal(picture.subarray(1, 4).toString("latin1"), "PNG");
    assert.ok(picture.readUInt32BE(16) >= 600 && picture.length > 2000, `${picture.length} bytes`); // it is not empty
  });
  await check(`${where}: what is outside stays outside`, async () => {
    for (const [tool, input] of [
      ["read_file", { path: "../../etc/passwd" }], ["read_file", { path: "/etc/passwd" }], ["write_file", { path: "../x", content: "" }],
      ["write_file", { path: ".git/hooks/pre-commit", content: "" }], ["browser_navigate", { url: "file:///etc/passwd" }],
      ["browser_take_screenshot", { filename: "/tmp/x.png" }], ["browser_snapshot", { filename: "../settings.json" }],
    ]) {
      const result = await call(tool, input);
      assert.ok(result.isError, `${tool} ${JSON.stringify(input)}: ${text(result)}`);
    }
  });
  await check(`${where}: end the server`, async () => {
    const { running } = JSON.parse(text(await ok("background_stop", { id: job })));
    assert.equal(running, false);
  });
  await check(`${where}: a command that leaves daemons behind`, async () => {
    const { stdout } = JSON.parse(text(await ok("run_command", { command: "setsid sleep 61 & (setsid sh -c 'sleep 61 & sleep 61' &); echo done" })));
    assert.equal(stdout, "done\n");
  });
}

/** Adds a server while the sandbox serves, calls its tool, and removes it. */
async function extend(where, program, client, modern) {
  let told = 0;
  let heard = () => {};
  client.setNotificationHandler("notifications/tools/list_changed", () => {
    told++;
    heard();
  });
  if (modern) await client.listen({ toolsListChanged: true });
  const change = async (method, path, body) => {
    told = 0;
    const change = new Promise((resolve) => (heard = resolve));
    const { status, body: answer } = await program.send(method, path, body);
    assert.equal(status, 200, JSON.stringify(answer));
    await change;
    return answer;
  };
  const tools = async () => (await client.listTools(undefined, { cacheMode: "bypass" })).tools.map((tool) => tool.name);
  await check(`${where}: add a server`, async () => {
    const { tools: added } = await change("POST", "/custom-mcp", { mcpServers: { desk: { command: join(bin, "compose"), env: program.env } } });
    assert.ok(added.includes("mcp_desk_clock_now"), String(added));
    assert.ok((await tools()).includes("mcp_desk_clock_now"));
    assert.equal(told, 1, "told more than once");
  });
  await check(`${where}: call its tool`, async () => {
    const result = await client.callTool({ name: "mcp_desk_clock_now", arguments: { zone: "Asia/Tokyo" } });
    assert.ok(!result.isError && /Tokyo|\+09:00|JST/.test(JSON.stringify(result)), JSON.stringify(result));
  });
  await check(`${where}: one that cannot be started changes nothing`, async () => {
    const { status } = await program.send("POST", "/custom-mcp", { mcpServers: { desk: { command: "no-such-program" } } });
    assert.equal(status, 502);
    assert.ok((await tools()).includes("mcp_desk_clock_now"));
  });
  await check(`${where}: remove it`, async () => {
    await change("DELETE", "/custom-mcp/desk");
    assert.ok(!(await tools()).some((name) => name.startsWith("mcp_")));
  });
}

const workspaces = join(work, "workspaces");
mkdirSync(workspaces);
const workspace = () => mkdtempSync(join(workspaces, "w"));

for (const [era, versionNegotiation] of [["modern", { mode: { pin: "2026-07-28" } }], ["legacy", { mode: "legacy" }]]) {
  const where = `HTTP, ${era}`;
  const program = await Program.start(workspace());
  await check(`${where}: nobody gets in without the token`, async () => {
    assert.deepEqual(await program.send("GET", "/health", undefined, {}), { status: 200, body: { status: "ok" } });
    for (const path of ["/mcp", "/credential", "/tool-server-url", "/custom-mcp", "/register-codex"]) {
      assert.equal((await program.send("POST", path, { mcpServers: {} }, {})).status, 401, path);
      const other = path === "/mcp" ? program.controlHeaders : program.headers;
      assert.equal((await program.send("POST", path, { mcpServers: {} }, other)).status, 401, path);
    }
  });
  const client = new Client({ name: "coder", version: "1.0.0" }, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${program.url}/mcp`), { requestInit: { headers: program.headers } }));
  const call = (name, input) => client.callTool({ name, arguments: input }, { timeout: 180_000 });
  await code(where, call, await freePort());
  await extend(where, program, client, era === "modern");
  await client.close();
  await check(`${where}: nothing is left behind`, () => program.stop());
}

// dovetail starts the sandbox; each call is the next line of one session.
for (const era of ["modern", "legacy"]) {
  const child = spawn(join(bin, "dovetail"), ["-era", era, "-timeout", "120s", "session", "--", join(bin, "sandbox"), ...args(workspace())], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const exit = once(child, "exit");
  let shown = "";
  let more = () => {};
  child.stdout.on("data", (chunk) => {
    shown += chunk;
    more();
  });
  const call = async (tool, input) => {
    shown = "";
    child.stdin.write(`call ${tool} ${JSON.stringify(input)}\n`);
    while (!/^\}\n/m.test(shown)) await new Promise((resolve) => (more = resolve));
    return JSON.parse(shown);
  };
  await code(`dovetail, ${era}`, call, await freePort());
  child.stdin.end();
  const [status] = await exit;
  assert.equal(status, 0);
}

await check("killed: nothing is left behind", async () => {
  const program = await Program.start(workspace());
  const client = new Client({ name: "coder", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${program.url}/mcp`), { requestInit: { headers: program.headers } }));
  const call = (name, input) => client.callTool({ name, arguments: input }, { timeout: 180_000 });
  await call("run_background", { command: "trap '' TERM; setsid sleep 61 & sleep 61; sleep 61" });
  await call("browser_navigate", { url: "data:text/html,<h1>hello</h1>" });
  await program.send("POST", "/custom-mcp", { mcpServers: { desk: { command: join(bin, "compose"), env: program.env } } });
  assert.ok(program.left().length > 5, String(program.left()));
  await program.kill();
  await client.close().catch(() => {});
});

console.log(`${passed} passed, 0 failed`);
process.exit(0);
