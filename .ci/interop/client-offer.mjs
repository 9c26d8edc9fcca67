// Checks of server info, lists, reads and completions.
import assert from "node:assert/strict";
import { fails, plain } from "./client-peer.mjs";

export const checks = [
  { name: "connect", run: connect },
  { name: "discover", from: "2026-07-28", run: discover },
  { name: "list tools", run: listTools },
  { name: "describe a tool", run: describeTool },
  { name: "list resources and templates", run: listResources },
  { name: "list prompts", run: listPrompts },
  { name: "read", run: read },
  { name: "read what does not exist", run: readNothing },
  { name: "get prompts", run: getPrompts },
  { name: "complete", run: complete },
  { name: "complete in the light of other arguments", from: "2025-06-18", run: completeInContext },
];

const ROUNDS = "test_input_required_result_";

const TOOLS = [
  "test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource", "test_resource_link",
  "test_multiple_content_types", "test_error_handling", "test_structured_content", "test_header_parameter",
  "json_schema_2020_12_tool", "test_tool_with_logging", "test_logging_tool", "test_log_levels", "test_tool_with_progress",
  "test_reconnection", "test_sampling", "test_missing_capability", "test_elicitation", "test_url_elicitation",
  "test_streaming_elicitation", "test_once", "test_elicitation_sep1034_defaults", "test_elicitation_sep1330_enums",
  `${ROUNDS}elicitation`, `${ROUNDS}sampling`, `${ROUNDS}list_roots`, `${ROUNDS}request_state`, `${ROUNDS}tampered_state`,
  `${ROUNDS}multi_round`, `${ROUNDS}multiple_inputs`, `${ROUNDS}capabilities`, "test_trigger_tool_change",
  "test_trigger_prompt_change", "test_trigger_resource_change", "test_wait", "test_timeout", "test_panic",
  "test_protocol_error", "greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
  "test_tool_with_task", "test_trigger_resource_update",
];

async function connect(peer) {
  assert.equal(peer.negotiated, peer.version);
  const { name, version, title } = peer.client.getServerVersion();
  assert.deepEqual([name, version], ["everything", "1.0.0"]);
  assert.equal(title, peer.since("2025-06-18") ? "Everything" : undefined);
  assert.equal(peer.client.getInstructions(), "Every tool here tries one feature of the protocol.");
  const capabilities = plain(peer.client.getServerCapabilities());
  delete capabilities.extensions?.["io.modelcontextprotocol/events"]; // a server that is starting declares all kinds
  assert.deepEqual(capabilities, {
    logging: {},
    ...(peer.since("2025-03-26") && { completions: {} }),
    ...(peer.modern && { extensions: {
      "io.modelcontextprotocol/skills": { directoryRead: true },
      "io.modelcontextprotocol/tasks": {},
    } }),
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    ...(peer.version === "2025-11-25" && { tasks: { cancel: {}, requests: { tools: { call: {} } } } }),
    tools: { listChanged: true },
  });
}

async function discover(peer) {
  const { supportedVersions, ttlMs, cacheScope } = await peer.client.discover();
  assert.ok(supportedVersions.includes("2026-07-28"), `supportedVersions: ${supportedVersions}`);
  assert.deepEqual([ttlMs, cacheScope], [60_000, "public"]);
}

async function listTools(peer) {
  const { tools } = await peer.client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), TOOLS.toSorted());
  for (const tool of tools) {
    assert.equal(typeof tool.description, "string", tool.name);
    assert.equal(tool.inputSchema.type, "object", tool.name);
  }
  const { $defs, allOf, then, additionalProperties } = tools.find((tool) => tool.name === "json_schema_2020_12_tool").inputSchema;
  assert.equal($defs.address.$anchor, "addressDef");
  assert.deepEqual(plain({ allOf, then, additionalProperties }), {
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    then: { required: ["phone"] },
    additionalProperties: false,
  });
}

async function describeTool(peer) {
  const { tools } = await peer.client.listTools();
  const described = tools.find((tool) => tool.name === "test_structured_content");
  assert.deepEqual(plain(described), {
    name: "test_structured_content",
    ...(peer.since("2025-06-18") && { title: "Forecast" }),
    description: "Gives structured content.",
    inputSchema: {
      type: "object",
      properties: {
        city: { type: "string", description: "where", minLength: 1 },
        unit: { type: "string", description: "of the temperature", enum: ["celsius", "fahrenheit"], default: "celsius" },
        days: { type: "integer", description: "how many", default: 1, minimum: 1, maximum: 7 },
      },
      required: ["city"],
      additionalProperties: false,
    },
    ...(peer.since("2025-06-18") && {
      outputSchema: {
        type: "object",
        properties: {
          city: { type: "string" },
          unit: { type: "string" },
          temperatures: { type: "array", description: "one for each day", items: { type: "number" } },
        },
        required: ["city", "unit", "temperatures"],
        additionalProperties: false,
      },
    }),
    ...(peer.since("2025-03-26") && { annotations: { readOnlyHint: true, openWorldHint: false } }),
  });
}

async function listResources(peer) {
  const { resources } = await peer.client.listResources();
  assert.deepEqual(resources.map((resource) => resource.uri), [
    "test://static-binary", "test://static-text", "test://waits", "test://watched-resource",
    ...["SKILL.md", "examples/email.md", "examples/regional/de.md"].map((file) => `skill://acme/refunds/${file}`),
    ...["SKILL.md", "references/forms.md", "scripts/extract.py"].map((file) => `skill://pdf-processing/${file}`),
  ]);
  const { resourceTemplates } = await peer.client.listResourceTemplates();
  assert.deepEqual(plain(resourceTemplates), [{
    uriTemplate: "test://template/{id}/data",
    name: "template",
    ...(peer.since("2025-06-18") && { title: "Resource Template" }),
    description: "A resource template with parameter substitution",
    mimeType: "application/json",
  }]);
}

async function listPrompts(peer) {
  const { prompts } = await peer.client.listPrompts();
  assert.deepEqual(prompts.map((prompt) => prompt.name), [
    "test_input_required_result_prompt", "test_prompt_with_arguments", "test_prompt_with_embedded_resource", "test_prompt_with_image",
    "test_simple_prompt",
  ]);
  assert.deepEqual(plain(prompts[1].arguments), [
    { name: "arg1", description: "First test argument", required: true },
    { name: "arg2", description: "Second test argument", required: true },
  ]);
}

async function read(peer) {
  const contents = async (uri) => plain((await peer.client.readResource({ uri })).contents);
  assert.deepEqual(await contents("test://static-text"), [
    { uri: "test://static-text", mimeType: "text/plain", text: "This is the content of the static text resource." },
  ]);
  const [{ blob, ...binary }] = await contents("test://static-binary");
  assert.deepEqual(binary, { uri: "test://static-binary", mimeType: "image/png" });
  assert.equal(Buffer.from(blob, "base64").subarray(0, 4).toString("latin1"), "\x89PNG");
  assert.deepEqual(await contents("test://template/123/data"), [
    { uri: "test://template/123/data", mimeType: "application/json", text: '{"id":"123","templateTest":true,"data":"Data for ID: 123"}' },
  ]);
}

async function readNothing(peer) {
  // Client 2.x gives its user one code for all versions: look at the wire.
  const error = await peer.client.readResource({ uri: "test://nothing" }).then(() => assert.fail("it exists"), (reason) => reason);
  assert.match(error.message, /resource not found/);
  const { code, data } = peer.wire.at(-1).error;
  assert.equal(code, peer.modern ? -32602 : -32002);
  assert.deepEqual(data, { uri: "test://nothing" });
}

async function getPrompts(peer) {
  const messages = async (name, args) => plain((await peer.client.getPrompt({ name, arguments: args })).messages);
  assert.deepEqual(await messages("test_simple_prompt"), [
    { role: "user", content: { type: "text", text: "This is a simple prompt for testing." } },
  ]);
  assert.deepEqual(await messages("test_prompt_with_arguments", { arg1: "hello", arg2: "world" }), [
    { role: "user", content: { type: "text", text: "Prompt with arguments: arg1='hello', arg2='world'" } },
  ]);
  assert.deepEqual(await messages("test_prompt_with_embedded_resource", { resourceUri: "test://example-resource" }), [
    { role: "user", content: { type: "resource", resource: {
      uri: "test://example-resource", mimeType: "text/plain", text: "Embedded resource content for testing.",
    } } },
    { role: "user", content: { type: "text", text: "Please process the embedded resource above." } },
  ]);
  const [image] = await messages("test_prompt_with_image");
  assert.deepEqual([image.content.type, image.content.mimeType], ["image", "image/png"]);
  await fails(peer.client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "alone" } }), -32602, 'missing "arg2"');
  await fails(peer.client.getPrompt({ name: "nothing" }), -32602, "unknown prompt");
}

async function complete(peer) {
  const prompt = { type: "ref/prompt", name: "test_prompt_with_arguments" };
  const completed = async (ref, name, value) => plain((await peer.client.complete({ ref, argument: { name, value } })).completion);
  const park = await completed(prompt, "arg1", "park");
  assert.deepEqual(park.values, ["park"]);
  assert.equal(park.total, 1);
  assert.deepEqual((await completed(prompt, "arg1", "par")).values, ["paris", "park", "party"]);
  const ids = await completed({ type: "ref/resource", uri: "test://template/{id}/data" }, "id", "");
  assert.equal(ids.values.length, 100);
  assert.deepEqual([ids.values[99], ids.total, ids.hasMore], ["100", 150, true]);
  await fails(peer.client.complete({ ref: prompt, argument: { name: "arg9", value: "" } }), -32602, "arg9");
}

async function completeInContext(peer) {
  const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
  const argument = { name: "arg2", value: "p" };
  const inParis = await peer.client.complete({ ref, argument, context: { arguments: { arg1: "paris" } } });
  assert.deepEqual(inParis.completion.values, ["pantheon"]);
  const elsewhere = await peer.client.complete({ ref, argument });
  assert.deepEqual(elsewhere.completion.values, []);
}
