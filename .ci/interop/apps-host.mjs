// A host of MCP Apps in a web page. The functions on globalThis.host are for apps.mjs.
import { AppBridge, buildAllowAttribute, getToolUiResourceUri, isToolVisibilityAppOnly, PostMessageTransport, RESOURCE_MIME_TYPE } from "@modelcontextprotocol/ext-apps/app-bridge";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const INFO = { name: "host", version: "1.0.0" };

const host = (globalThis.host = { connect, show, end });

/** Connects to the server of this page's origin, and returns its tools. */
async function connect(version) {
  const negotiation = version === "2026-07-28"
    ? { versionNegotiation: { mode: { pin: version } } }
    : { versionNegotiation: { mode: "legacy" }, supportedProtocolVersions: [version] };
  const capabilities = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } } };
  host.client = new Client(INFO, { capabilities, ...negotiation });
  await host.client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href)));
  host.tools = (await host.client.listTools()).tools;
  return host.tools.map((tool) => ({ name: tool.name, view: getToolUiResourceUri(tool), appOnly: isToolVisibilityAppOnly(tool) }));
}

/** Calls a tool and shows its result in its view. */
async function show(name, args) {
  const tool = host.tools.find((tool) => tool.name === name);
  const { contents: [view] } = await host.client.readResource({ uri: getToolUiResourceUri(tool) });
  if (view.mimeType !== RESOURCE_MIME_TYPE) throw new Error(`the view is ${view.mimeType}`);
  host.sizes = [];
  host.contexts = [];

  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.allow = buildAllowAttribute(view._meta?.ui?.permissions);
  document.body.replaceChildren(frame);
  host.bridge = new AppBridge(host.client, INFO, { serverTools: {}, updateModelContext: { structuredContent: {} } }, {
    hostContext: { theme: "dark", styles: { variables: { "--color-text-primary": "rgb(230, 220, 200)" } }, toolInfo: { tool } },
  });
  host.bridge.onsizechange = ({ width, height }) => {
    host.sizes.push({ width, height });
    frame.style.height = `${height}px`;
  };
  host.bridge.onupdatemodelcontext = async (params) => {
    host.contexts.push(params);
    return {};
  };
  const initialized = new Promise((resolve) => (host.bridge.oninitialized = resolve));
  await host.bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = withPolicy(view.text, view._meta?.ui?.csp);
  await initialized;

  await host.bridge.sendToolInput({ arguments: args });
  await host.bridge.sendToolResult(await host.client.callTool({ name, arguments: args }));
  return host.bridge.getAppVersion();
}

/** Adds the policy of the specification for a view that declares these origins. */
function withPolicy(html, { connectDomains = [], resourceDomains = [] } = {}) {
  const resources = resourceDomains.join(" ");
  const policy = `default-src 'none'; script-src 'self' 'unsafe-inline' ${resources}; style-src 'self' 'unsafe-inline' ${resources}; ` +
    `img-src 'self' data: ${resources}; connect-src ${connectDomains.join(" ") || "'none'"}; object-src 'none'; base-uri 'self'`;
  return html.replace("<meta charset", `<meta http-equiv="Content-Security-Policy" content="${policy}">$&`);
}

/** Ends the view, as a host does before it removes it. */
async function end() {
  await host.bridge.teardownResource({ reason: "the test ends" });
  await host.bridge.close();
  await host.client.close();
}
