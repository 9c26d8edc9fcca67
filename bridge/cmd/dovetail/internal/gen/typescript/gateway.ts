/**
 * Calls tools through the gateway of dovetail serve -http, with fetch.
 *
 * The environment says where the gateway is, at each call: DOVETAIL_URL is its address, by default
 * http://127.0.0.1:8900, DOVETAIL_TOKEN its token, and DOVETAIL_TOKEN_FILE a file with the token. Where there is no
 * environment, such as in a browser, the function configure says it.
 *
 * A call is sent once, and never again. It may wait for a person who approves it.
 */

/** A block of a result: a text, an image or another kind. */
export type ContentBlock = { type: string; text?: string; [name: string]: unknown };

/** The result of a tool without an output schema. */
export type ToolResult = {
  /** The texts of the result, joined by line breaks. */
  text: string;
  content: ContentBlock[];
  /** The structured content, or undefined. */
  structured: unknown;
};

/** The call was not executed, or its server answered with an error. code says why, such as forbidden or rejected. */
export class GatewayError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "GatewayError";
    this.code = code;
  }
}

/** The call was sent, and there is no answer that can be used: it may have been executed. */
export class UnknownOutcome extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UnknownOutcome";
  }
}

/** The tool reported a failure. content has the blocks of its result. */
export class ToolError extends Error {
  readonly content: ContentBlock[];
  constructor(message: string, content: ContentBlock[]) {
    super(message);
    this.name = "ToolError";
    this.content = content;
  }
}

/** What a call may have beside its arguments. */
export type CallOptions = {
  /** Ends the call. */
  signal?: AbortSignal;
};

/** The address of the gateway and its token. */
export type Gateway = { url?: string; token?: string };

let configured: Gateway = {};

/** Sets the gateway of all later calls. What is not set comes from the environment. */
export function configure(gateway: Gateway): void {
  configured = { ...gateway };
}

type Process = {
  env?: Record<string, string | undefined>;
  getBuiltinModule?: (name: string) => { readFileSync?: (path: string, encoding: string) => string } | undefined;
};

function environment(name: string): string {
  return (globalThis as { process?: Process }).process?.env?.[name] ?? "";
}

function gatewayToken(): string {
  const token = configured.token ?? environment("DOVETAIL_TOKEN");
  const path = environment("DOVETAIL_TOKEN_FILE");
  if (token !== "" || path === "") return token;
  const read = (globalThis as { process?: Process }).process?.getBuiltinModule?.("node:fs")?.readFileSync;
  if (read === undefined) throw new GatewayError("misconfigured", "DOVETAIL_TOKEN_FILE cannot be read here: set DOVETAIL_TOKEN");
  try {
    return read(path, "utf8").trim();
  } catch (error) {
    throw new GatewayError("misconfigured", `the file of DOVETAIL_TOKEN_FILE cannot be read: ${String(error)}`, { cause: error });
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

async function call(server: string, tool: string, args: unknown, options: CallOptions): Promise<Record<string, unknown>> {
  const base = (configured.url ?? environment("DOVETAIL_URL")) || "http://127.0.0.1:8900";
  const path = `/api/v1/mcp/proxy/${encodeURIComponent(server)}/tools/${encodeURIComponent(tool)}?wait=1&result=full`;
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  const token = gatewayToken();
  if (!/^[!-~]*$/.test(token)) throw new GatewayError("misconfigured", "the token of the gateway has spaces or other characters that no token has");
  if (token !== "") headers["Authorization"] = `Bearer ${token}`;
  const init: RequestInit = { method: "POST", headers, body: JSON.stringify({ arguments: args }), redirect: "manual" };
  if (options.signal !== undefined) init.signal = options.signal;
  let request: Request;
  try {
    request = new Request(base.replace(/\/+$/, "") + path, init);
  } catch {
    throw new GatewayError("misconfigured", "DOVETAIL_URL: expected an address such as http://127.0.0.1:8900, without a user");
  }
  options.signal?.throwIfAborted();
  let status: number, body: string;
  try {
    const response = await fetch(request);
    status = response.status;
    body = await response.text();
  } catch (error) {
    if (isNotConnected(error)) throw new GatewayError("unreachable", `the gateway at ${base} cannot be reached, and the call was not sent`, { cause: error });
    throw new UnknownOutcome("the connection ended before the answer; the call may have been executed", { cause: error });
  }
  let decoded: unknown;
  try {
    decoded = JSON.parse(body);
  } catch {
    decoded = undefined;
  }
  const answer = asObject(decoded);
  if (status === 200 && "success" in answer) {
    const message = String(answer["error"]);
    if (answer["success"] !== true && answer["is_error"] !== true) {
      if (answer["executed"] !== "no") throw new UnknownOutcome(message);
      throw new GatewayError(String(answer["code"]), message);
    }
    const result = asObject(answer["result"]);
    if (!Array.isArray(result["content"])) throw new UnknownOutcome("the answer has no result; the call was executed");
    if (answer["is_error"] === true) throw new ToolError(message, result["content"] as ContentBlock[]);
    return result;
  }
  const detail = answer["detail"];
  if ((status < 500 && status !== 200) || typeof detail === "string") {
    const hint = status === 401 ? "; DOVETAIL_TOKEN has to be the token that dovetail serve prints" : "";
    throw new GatewayError(`http_${status}`, (typeof detail === "string" ? detail : `the gateway answered with the status ${status}`) + hint);
  }
  throw new UnknownOutcome(`an answer with the status ${status} that is not of a gateway; the call may have been executed`);
}

/** Whether no connection was made. An error that is not known counts as a lost answer. */
function isNotConnected(error: unknown): boolean {
  const cause = asObject(asObject(error)["cause"]);
  const codes = [asObject(error)["code"], cause["code"], ...(Array.isArray(cause["errors"]) ? cause["errors"].map((e) => asObject(e)["code"]) : [])];
  const known = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"];
  return codes.some((code) => known.includes(String(code)));
}

/** Calls a tool without an output schema. */
export async function callText(server: string, tool: string, args: unknown, options: CallOptions): Promise<ToolResult> {
  const result = await call(server, tool, args, options);
  const content = (result["content"] as unknown[]).filter((block): block is ContentBlock => typeof block === "object" && block !== null);
  const texts = content.filter((block) => block.type === "text").map((block) => String(block.text ?? ""));
  return { text: texts.join("\n"), content, structured: result["structuredContent"] };
}

/** Calls a tool with an output schema, and returns its structured content. */
export async function callStructured(server: string, tool: string, args: unknown, options: CallOptions): Promise<unknown> {
  const result = await call(server, tool, args, options);
  if (!("structuredContent" in result)) {
    throw new UnknownOutcome("the tool has returned no structured content, although it has an output schema; the call was executed");
  }
  return result["structuredContent"];
}
