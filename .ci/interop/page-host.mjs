// A process of internal/test/httpfixture, which serves the page and asks on demand.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

let asked = 0;

export class Host {
  requests = []; // what browsers have asked for: {request, referer}
  #child;
  #answers = new Map(); // promises, by the ids of requests

  /** Starts one; options are its flags. */
  static async start(options = {}) {
    const host = new Host();
    const flags = Object.entries(options).map(([name, value]) => `-${name}=${value}`);
    host.#child = spawn(join(process.env.bin, "httpfixture"), flags, { stdio: ["pipe", "pipe", "ignore"] });
    const ready = Promise.withResolvers();
    createInterface({ input: host.#child.stdout }).on("line", (line) => {
      const event = JSON.parse(line);
      if (event.url) ready.resolve(Object.assign(host, event));
      if (event.request) host.requests.push(event);
      if (event.answer) host.#answerOf(event.answer.id).resolve(event.answer);
    });
    host.#child.once("error", ready.reject);
    host.#child.once("exit", () => ready.reject(new Error("the host has ended")));
    return ready.promise;
  }

  /** The page's address with the token in it. */
  get link() {
    return `${this.url}#token=${this.token}`;
  }

  get addr() {
    return new URL(this.url).host;
  }

  /** Asks, and returns the request's id. */
  ask(request = {}) {
    const question = {
      id: `request-${++asked}`, server: "files", tool: "write_file", arguments: '{"path":"/tmp/bread.txt"}',
      launch: "", toolDigest: "", caller: "ada", seconds: 300, ...request,
    };
    this.#order({ ask: question });
    return question.id;
  }

  /** The outcome of a request: {id, approved, reason, error}. */
  answer(id) {
    return this.#answerOf(id).promise;
  }

  withdraw(id) {
    this.#order({ withdraw: id });
  }

  /** Replaces the token. */
  change(token) {
    this.#order({ token });
    this.token = token;
  }

  /** Breaks the connections to pages. */
  cut() {
    this.#order({ cut: true });
  }

  /** Kills the process. */
  async kill() {
    if (this.#child.exitCode !== null || this.#child.signalCode) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }

  #order(order) {
    this.#child.stdin.write(JSON.stringify(order) + "\n");
  }

  #answerOf(id) {
    if (!this.#answers.has(id)) this.#answers.set(id, Promise.withResolvers());
    return this.#answers.get(id);
  }
}
