// The answers of a server that lists the entries of bridge/internal/entrycheck/testdata/bad.json.

/** The lists by their method: the member of the result, the member that identifies an entry, and a good entry. */
export const LISTS = {
  "tools/list": { member: "tools", id: "name", good: { name: "good", inputSchema: { type: "object" } } },
  "prompts/list": { member: "prompts", id: "name", good: { name: "good" } },
  "resources/list": { member: "resources", id: "uri", good: { uri: "test:good", name: "good" } },
  "resources/templates/list": { member: "resourceTemplates", id: "uriTemplate", good: { uriTemplate: "test:good/{x}", name: "good" } },
};

const CAPABILITIES = { tools: {}, prompts: {}, resources: {} };
const SERVER = { name: "bad", version: "1" };

/** Returns the answer to a request, or undefined for a notification. entries has the entries by the member of the result. */
export function answerTo(entries, { id, method, params }) {
  if (id === undefined) return undefined;
  const modern = params?._meta?.["io.modelcontextprotocol/protocolVersion"] !== undefined;
  const answer = (result) => ({
    jsonrpc: "2.0",
    id,
    result: modern ? { ...result, resultType: "complete", ttlMs: 0, cacheScope: "private", _meta: { "io.modelcontextprotocol/serverInfo": SERVER } } : result,
  });
  switch (method) {
    case "initialize": return answer({ protocolVersion: params.protocolVersion, capabilities: CAPABILITIES, serverInfo: SERVER });
    case "server/discover": return answer({ supportedVersions: ["2026-07-28"], capabilities: CAPABILITIES });
    case "ping": return answer({});
  }
  const list = LISTS[method];
  if (!list) return { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } };
  return answer({ [list.member]: [...(entries[list.member] ?? []), list.good] });
}
