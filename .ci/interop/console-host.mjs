// A process of internal/test/consolefixture, which serves the console, and clients of it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { eventually } from "./browser.mjs";

export const PHONE = { width: 390, height: 900 };
export const DESK = { width: 1440, height: 900 };
export const EXACT = '{"id":9007199254740993,"price":1.10,"text":"\\u202efdp.exe"}';

export class Host {
  #child;

  /** Starts one; options are its flags. */
  static async start(options = {}) {
    const host = new Host();
    const flags = Object.entries(options).map(([name, value]) => `-${name}=${value}`);
    host.#child = spawn(join(process.env.bin, "consolefixture"), flags, { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = await once(createInterface({ input: host.#child.stdout }), "line");
    return Object.assign(host, JSON.parse(line));
  }

  /** The page's address with the token of operators in it. */
  get link() {
    return `${this.url}#token=${this.token}`;
  }

  get addr() {
    return new URL(this.url).host;
  }

  /** Connects a client with a version. fetch sends the exact bytes of a request. */
  async connect(pin) {
    const options = pin ? { versionNegotiation: { mode: { pin } } } : { versionNegotiation: { mode: "legacy" } };
    const client = new Client({ name: "editor", version: pin ? "modern" : "legacy" }, options);
    // JSON.stringify would change the numbers.
    const fetch_ = (url, init) => fetch(url, { ...init, body: init?.body?.replace('"EXACT"', EXACT) });
    await client.connect(new StreamableHTTPClientTransport(new URL(this.mcp), { fetch: fetch_ }));
    return client;
  }

  /** Shows the state of a build. */
  build(state) {
    this.#child.stdin.write(`build ${JSON.stringify(state)}\n`);
  }

  /** Breaks the connections to pages. */
  cut() {
    this.#child.stdin.write("cut\n");
  }

  /** Kills the process. */
  async kill() {
    if (this.#child.exitCode !== null || this.#child.signalCode) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

/** Calls a tool. The scenario may end before the call does. */
export function call(client, name, args = {}, options) {
  const made = client.callTool({ name: `files__${name}`, arguments: args }, options);
  made.catch(() => {});
  return made;
}

export const rowOf = (page, name) => page.locator(".calls tbody tr", { hasText: `files.${name}` }).first();
export const outcome = (page, name, text) => eventually(async () => assert.equal(await rowOf(page, name).locator(".outcome").textContent(), text));
export const open = (page, name) => rowOf(page, name).locator("a").click();
