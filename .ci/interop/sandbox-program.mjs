// The sandbox under test, as a process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const MARK = "SANDBOX_MARK";
let marks = 0;

/** The arguments for a workspace. */
export const args = (root) => [
  "-root", root, "-browser", join(import.meta.dirname, "node_modules/.bin/playwright-mcp"), "-chromium", "chromium-headless-shell",
  "-pass", `${MARK},GOFLAGS,GOPROXY`,
];

export class Program {
  /** The environment of the processes of the sandbox. */
  mark = `${process.pid}-${++marks}`;

  static async start(root, ...more) {
    const program = new Program();
    await program.#start(root, more);
    return program;
  }

  async #start(root, more) {
    this.child = spawn(join(process.env.bin, "sandbox"), [...args(root), "-addr", "127.0.0.1:0", ...more], {
      stdio: ["ignore", "inherit", "pipe"], env: { ...process.env, [MARK]: this.mark },
    });
    this.exit = once(this.child, "exit");
    const lines = [];
    const spoken = new Promise((resolve) => {
      createInterface(this.child.stderr).on("line", (line) => {
        lines.push(line);
        if (line.startsWith("the control token is ")) resolve();
      });
    });
    await Promise.race([spoken, this.exit.then(() => assert.fail(`the sandbox has ended:\n${lines.join("\n")}`))]);
    this.url = /serving (http:\S+)\/mcp/.exec(lines.join("\n"))[1];
    this.token = /the token is (\S+)/.exec(lines.join("\n"))[1];
    this.controlToken = /the control token is (\S+)/.exec(lines.join("\n"))[1];
  }

  /** Variables that custom servers must have in their environment. */
  get env() {
    return { [MARK]: this.mark };
  }

  /** The token of agents. */
  get headers() {
    return { Authorization: `Bearer ${this.token}` };
  }

  /** The token of the control routes. */
  get controlHeaders() {
    return { Authorization: `Bearer ${this.controlToken}` };
  }

  /** Sends a request to a control route. */
  async send(method, path, body, headers = this.controlHeaders) {
    const response = await fetch(this.url + path, {
      method, body: body && JSON.stringify(body), headers: { ...headers, ...(body && { "Content-Type": "application/json" }) },
    });
    return { status: response.status, body: await response.json().catch(() => undefined) };
  }

  async stop() {
    this.child.kill("SIGTERM");
    const [code, signal] = await this.exit;
    assert.equal(code, 0, `the sandbox has ended with ${code ?? signal}`);
    assert.deepEqual(this.left(), [], "left behind");
  }

  /** Kills the sandbox. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.exit;
    for (let tries = 0; this.left().length > 0 && tries < 100; tries++) await pause(100);
    assert.deepEqual(this.left(), [], "left behind");
  }

  /** The running processes of the sandbox. */
  left() {
    return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(`${MARK}=${this.mark}`)) return [];
        return [readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")];
      } catch {
        return []; // it has ended
      }
    });
  }
}
