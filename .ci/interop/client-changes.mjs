// Checks of notifications: lists and resources that change.
import assert from "node:assert/strict";
import { fails } from "./client-peer.mjs";

export const checks = [
  { name: "a changed list of tools", run: (peer) => changedList(peer, {
    kind: "tools", wish: "toolsListChanged", trigger: "test_trigger_tool_change", entry: "test_dynamic_tool",
    list: async () => (await peer.client.listTools()).tools.map((tool) => tool.name),
  }) },
  { name: "a changed list of prompts", run: (peer) => changedList(peer, {
    kind: "prompts", wish: "promptsListChanged", trigger: "test_trigger_prompt_change", entry: "test_dynamic_prompt",
    list: async () => (await peer.client.listPrompts()).prompts.map((prompt) => prompt.name),
  }) },
  { name: "a changed list of resources", run: (peer) => changedList(peer, {
    kind: "resources", wish: "resourcesListChanged", trigger: "test_trigger_resource_change", entry: "test://dynamic-resource",
    list: async () => (await peer.client.listResources()).resources.map((resource) => resource.uri),
  }) },
  { name: "a tool that comes and goes can be called", run: dynamicTool },
  { name: "subscribe to a resource", run: subscribe },
];

const WATCHED = "test://watched-resource";

/** Adds and removes an entry; the client is notified each time and sees the change. */
async function changedList(peer, { kind, wish, trigger, entry, list }) {
  await peer.watch({ [wish]: true });
  assert.ok(!(await list()).includes(entry), "it is there before");
  for (const there of [true, false]) {
    peer.told.length = 0;
    await peer.call(trigger);
    await peer.hears(`notifications/${kind}/list_changed`);
    assert.equal((await list()).includes(entry), there);
  }
}

async function dynamicTool(peer) {
  await fails(peer.call("test_dynamic_tool"), -32602, "unknown tool");
  await peer.call("test_trigger_tool_change");
  assert.equal((await peer.call("test_dynamic_tool")).content[0].text, "Still here");
}

async function subscribe(peer) {
  const content = async () => (await peer.client.readResource({ uri: WATCHED }, { cacheMode: "bypass" })).contents[0].text;
  const update = () => peer.call("test_trigger_resource_update");
  const heard = () => peer.told.filter((note) => note.method === "notifications/resources/updated").length;

  await update();
  const subscription = peer.modern
    ? await peer.watch({ resourceSubscriptions: [WATCHED] })
    : await peer.client.subscribeResource({ uri: WATCHED });
  assert.equal(heard(), 0, "told before it subscribed");
  assert.equal(await content(), "Watched resource content, revision 1");

  await update();
  assert.equal((await peer.hears("notifications/resources/updated")).uri, WATCHED);
  assert.equal(await content(), "Watched resource content, revision 2");

  await (peer.modern ? subscription.close() : peer.client.unsubscribeResource({ uri: WATCHED }));
  await update();
  assert.equal(await content(), "Watched resource content, revision 3"); // a round trip: what was told has come
  assert.equal(heard(), 1, "told after it unsubscribed");
}
