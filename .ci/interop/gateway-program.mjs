// A process of dovetail serve with its servers and its journal.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { eventually } from "./browser.mjs";

const { bin, work } = process.env;
const sent = join(work, "sent");

export class Program {
  said = "";
  #child;
  #ended;

  /** Starts the program; options are its flags. The folder with files and journal is new, or that of another program. */
  static async start(options = {}, folder = mkdtempSync(join(work, "files-"))) {
    const program = Object.assign(new Program(), { folder, journal: join(folder, "journal.jsonl") });
    writeFileSync(sent, "");
    const flags = { config: join(work, "mcp.json"), policy: join(work, "policy.json"), http: "127.0.0.1:0", journal: program.journal, ...options };
    const env = { ...process.env, GATEWAY_FILES: folder, GATEWAY_MEMORY: join(folder, "memory.jsonl") };
    program.#child = spawn(join(bin, "dovetail"), ["serve", ...Object.entries(flags).map(([name, value]) => `-${name}=${value}`)], {
      env, stdio: ["ignore", "ignore", "pipe"],
    });
    program.#ended = once(program.#child, "exit");
    for await (const line of createInterface(program.#child.stderr)) {
      program.#hear(line);
      if (program.url) break;
    }
    assert.ok(program.url, `the program has ended: ${program.said}`);
    program.#child.stderr.on("data", (text) => (program.said += text));
    await eventually(async () => {
      const names = (await program.request("GET", "/api/v1/rest/tools")).body.tools.map((tool) => tool.name);
      for (const name of ["files__write_file", "memory__read_graph", "everything__get-sum"]) assert.ok(names.includes(name), `no ${name}`);
    });
    return program;
  }

  #hear(line) {
    this.said += `${line}\n`;
    this.url ??= /^serving .*(http:\/\/[\d.:]+)\/mcp/.exec(line)?.[1];
    this.token ??= /^clients .*Bearer (\w+)/.exec(line)?.[1];
    this.link ??= /^approve +(\S+)/.exec(line)?.[1];
  }

  /** Calls a route; the answer is {status, body}. */
  async request(method, path, body, signal) {
    const headers = { Authorization: `Bearer ${this.token}`, ...(body && { "Content-Type": "application/json" }) };
    const response = await fetch(this.url + path, { method, headers, body, signal });
    return { status: response.status, body: await response.json() };
  }

  /** The exact arguments of each tools/call that the servers received. */
  calls(tool) {
    const lines = readFileSync(sent, "utf8").split("\n").filter((line) => line.includes(`"method":"tools/call"`) && line.includes(`"${tool}"`));
    return lines.map((line) => /"arguments":(\{[^{}]*\})/.exec(line)[1]);
  }

  path(name) {
    return join(this.folder, name);
  }

  /** The content of a file, or undefined. */
  file(name) {
    return existsSync(this.path(name)) ? readFileSync(this.path(name), "utf8") : undefined;
  }

  /** The events of the journal, also while it is being written. */
  events() {
    return readFileSync(this.journal, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).event);
  }

  /** The journal's events, once it has been verified. */
  async verified() {
    const { stdout } = await promisify(execFile)(join(bin, "dovetail"), ["journal", "verify", this.journal]);
    assert.match(stdout, /is valid/);
    assert.doesNotMatch(stdout, /without an outcome|incomplete last entry/);
    return this.events();
  }

  /** Delays each journal entry by a second, so that the program can be killed between two. */
  async slowDown() {
    const tracer = spawn("strace", ["-f", "-p", this.#child.pid, "-P", this.journal, "-e", "trace=write", "-e", "inject=write:delay_exit=1s", "-o", "/dev/null"], { stdio: ["ignore", "ignore", "pipe"] });
    for await (const line of createInterface(tracer.stderr)) {
      if (/attached/.test(line)) return;
      assert.fail(`strace says: ${line}`);
    }
  }

  /** Kills the process. */
  async kill() {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  /** Interrupts the process. */
  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode) return;
    this.#child.kill("SIGINT");
    const [code, signal] = await this.#ended;
    assert.equal(code, 0, `the program has ended with ${code ?? signal}: ${this.said}`);
  }
}

/** The endpoints for calls; each function returns the response, {ok, text}. */
export const WAYS = {
  async mcp(program, server, tool, json, signal) {
    const args = ["-timeout", "60s", "-header", `Authorization: Bearer ${program.token}`, "call", `${program.url}/mcp`, `${server}__${tool}`, json];
    try {
      const { stdout } = await promisify(execFile)(join(bin, "dovetail"), args, { signal });
      return { ok: true, text: stdout };
    } catch (error) {
      if (![1, 2, 4].includes(error.code)) throw error;
      return { ok: false, text: error.stdout + error.stderr };
    }
  },
  async run(program, server, tool, json, signal) {
    const { body } = await program.request("POST", "/run", `{"server_name":"${server}","server_params":{},"tool_name":"${tool}","tool_args":${json}}`, signal);
    return { ok: "result" in body, text: JSON.stringify(body) };
  },
  async proxy(program, server, tool, json, signal) {
    const { body } = await program.request("POST", `/api/v1/mcp/proxy/${server}/tools/${tool}`, `{"arguments":${json}}`, signal);
    return { ok: body.success, text: JSON.stringify(body) };
  },
  async rest(program, server, tool, json, signal) {
    const { status, body } = await program.request("POST", "/api/v1/rest/tools/call", `{"name":"${server}__${tool}","arguments":${json}}`, signal);
    return { ok: status === 200 && body.isError !== true, text: JSON.stringify(body) };
  },
};

/** The arguments of a write, with text that is easily displayed wrongly. */
export const write = (program, name) => `{"path":${JSON.stringify(program.path(name))},"content":"9007199254740993 \u202etxt.exe <b>\\n"}`;
export const CONTENT = "9007199254740993 \u202etxt.exe <b>\n";
