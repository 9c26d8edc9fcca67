// The client of @modelcontextprotocol/client 2.x, which supports 2026-07-28.
import { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Tasks } from "./client-ext-tasks.mjs";
import { CAPABILITIES, INFO, LEGACY, NOTIFICATIONS, Peer, QUESTIONS } from "./client-peer.mjs";
import { Ear } from "./client-server.mjs";

const MODERN = "2026-07-28";

export const name = "client 2.x";
export const versions = { stdio: [...LEGACY, MODERN], http: [...LEGACY, MODERN], sse: LEGACY };

export function open(server, version, capabilities = CAPABILITIES) {
  const options =
    version === MODERN
      ? { versionNegotiation: { mode: { pin: version } } }
      : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] };
  return connect(server, version, capabilities, options);
}

/** The same client with its default version. */
export const auto = {
  name: `${name}, auto`,
  versions: { stdio: [MODERN], http: [MODERN] },
  open: (server, version, capabilities = CAPABILITIES) =>
    connect(server, version, capabilities, { versionNegotiation: { mode: "auto" } }),
};

function transportTo({ transport, command, url }, ear) {
  switch (transport) {
    case "http": return new StreamableHTTPClientTransport(url, { fetch: ear.fetch });
    case "sse": return new SSEClientTransport(url);
  }
  return new StdioClientTransport({ command, stderr: "ignore" });
}

async function connect(server, version, capabilities, options) {
  const client = new Client(INFO, { capabilities, ...options });
  const peer = new Peer(client, version);
  for (const [capability, method] of Object.entries(QUESTIONS)) {
    if (!capabilities[capability]) continue;
    client.setRequestHandler(method, (request) => peer.answer(method, request.params));
  }
  for (const method of NOTIFICATIONS) {
    client.setNotificationHandler(method, (note) => peer.tell(method, note.params));
  }
  const ear = (peer.ear = new Ear());
  await client.connect(transportTo(server, ear));
  peer.negotiated = client.getNegotiatedProtocolVersion();
  let meta;
  peer.call = (tool, args = {}, options) => client.callTool({ name: tool, arguments: args, _meta: meta }, options);
  let tasks;
  peer.tasks = () => (tasks ??= new Tasks(peer, capabilities));
  peer.logFrom = peer.modern
    ? (level) => (meta = { [LOG_LEVEL_META_KEY]: level }) // each request says so itself
    : (level) => client.setLoggingLevel(level);
  peer.watch = peer.modern
    ? (filter) => client.listen(filter)
    : () => server.transport === "http" && ear.listening;
  return peer.tap();
}
