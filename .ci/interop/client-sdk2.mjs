// The client of @modelcontextprotocol/client 2.x, which speaks 2026-07-28 too.
import { Client, LOG_LEVEL_META_KEY } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { CAPABILITIES, INFO, LEGACY, NOTIFICATIONS, Peer, QUESTIONS } from "./client-peer.mjs";

const MODERN = "2026-07-28";

export const name = "client 2.x";
export const versions = [...LEGACY, MODERN];

export function open(command, version, capabilities = CAPABILITIES) {
  const options =
    version === MODERN
      ? { versionNegotiation: { mode: { pin: version } } }
      : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] };
  return connect(command, version, capabilities, options);
}

/** The same client when its user leaves the version to it. */
export const auto = {
  name: `${name}, auto`,
  versions: [MODERN],
  open: (command, version, capabilities = CAPABILITIES) =>
    connect(command, version, capabilities, { versionNegotiation: { mode: "auto" } }),
};

async function connect(command, version, capabilities, options) {
  const client = new Client(INFO, { capabilities, ...options });
  const peer = new Peer(client, version);
  for (const [capability, method] of Object.entries(QUESTIONS)) {
    if (!capabilities[capability]) continue;
    client.setRequestHandler(method, (request) => peer.answer(method, request.params));
  }
  for (const method of NOTIFICATIONS) {
    client.setNotificationHandler(method, (note) => peer.tell(method, note.params));
  }
  await client.connect(new StdioClientTransport({ command, stderr: "ignore" }));
  peer.negotiated = client.getNegotiatedProtocolVersion();
  let meta;
  peer.call = (tool, args = {}, options) => client.callTool({ name: tool, arguments: args, _meta: meta }, options);
  peer.logFrom = peer.modern
    ? (level) => (meta = { [LOG_LEVEL_META_KEY]: level }) // each request says so itself
    : (level) => client.setLoggingLevel(level);
  peer.watch = peer.modern ? (filter) => client.listen(filter) : () => {};
  return peer.tap();
}
