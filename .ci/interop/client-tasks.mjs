// Checks of tasks: results, failures, questions, cancellation, and tasks of other clients.
import assert from "node:assert/strict";
import { fails, plain } from "./client-peer.mjs";

const TASKS = { from: "2025-11-25", over: ["http", "stdio"] };

export const checks = [
  { name: "tasks: results and failures", ...TASKS, run: outcomes },
  { name: "tasks: questions", ...TASKS, run: questions },
  { name: "tasks: cancellation", ...TASKS, run: cancellation },
  { name: "tasks: tools without", ...TASKS, run: without },
  { name: "tasks: no list", ...TASKS, run: noList },
  { name: "tasks: another client continues", ...TASKS, over: ["http"], run: recovery },
  { name: "tasks: notifications", ...TASKS, from: "2026-07-28", run: notifications },
];

const text = (result) => plain(result.content)[0].text;
const accept = (content) => ({ action: "accept", content });

async function outcomes(peer) {
  const tasks = peer.tasks();
  const [slow, failing, broken] = await Promise.all([
    tasks.run("slow_compute", { seconds: 0.2, label: "pi" }),
    tasks.run("failing_job"),
    tasks.run("protocol_error_job"),
  ]);
  assert.deepEqual(slow.states.filter((state, i) => state !== slow.states[i - 1]), ["working", "completed"]);
  assert.equal(text(slow.result), "pi: computed for 0.2 s");
  // An error of the tool is a failed task in 2025-11-25, and a completed one in 2026-07-28.
  assert.equal(failing.states.at(-1), peer.modern ? "completed" : "failed");
  const result = plain(await tasks.result(failing.id));
  assert.deepEqual(result.content, [{ type: "text", text: "the job failed" }]);
  assert.equal(result.isError, true);
  if (!peer.modern) assert.equal((await tasks.get(failing.id)).statusMessage, "the job failed");
  assert.equal(broken.states.at(-1), "failed");
  await fails(tasks.result(broken.id), -32603, "the job broke");
  await fails(tasks.get("nothing"), -32602, "task");
}

async function questions(peer) {
  peer.answers["elicitation/create"] = ({ message }) => accept(message.startsWith("What") ? { name: "Ada" } : { confirm: true });
  const tasks = peer.tasks();
  const [deleted, two] = await Promise.all([tasks.run("confirm_delete", { filename: "a.txt" }), tasks.run("multi_input")]);
  assert.ok(deleted.states.includes("input_required"), `states: ${deleted.states}`);
  assert.equal(text(deleted.result), "a.txt deleted: true");
  assert.equal(text(two.result), "Ada is sure: true");
  assert.deepEqual(peer.asked.map((question) => question.params.message).toSorted(), [
    "Are you sure?", "Delete a.txt?", "What is your name?",
  ]);
  const { taskId } = peer.asked.find((question) => question.params.message === "Delete a.txt?");
  assert.equal(taskId, deleted.id); // the client knows which task asks
}

async function cancellation(peer) {
  const tasks = peer.tasks();
  const running = await tasks.start("slow_compute", { seconds: 60, label: "pi" });
  await tasks.cancel(running.id);
  for (let state; state !== "cancelled"; ({ status: state } = await tasks.get(running.id)));
  const { states, result } = await running.end();
  assert.equal(states.at(-1), "cancelled");
  assert.equal(result, undefined);
  if (!peer.modern) await fails(tasks.cancel(running.id), -32602, "ended already");
}

async function without(peer) {
  const tasks = peer.tasks();
  if (peer.modern) {
    assert.equal(text(await tasks.immediate("greet", { name: "Ada" })), "Hello, Ada!");
    peer.answers["elicitation/create"] = () => accept({ name: "Ada" });
    const asked = await tasks.run("test_tool_with_task"); // it becomes a task after the answer
    assert.equal(text(asked.result), "Worked for Ada");
    return;
  }
  await fails(tasks.demand("greet", { name: "Ada" }), -32601, "does not run as a task");
  await fails(tasks.demand("test_tool_with_task"), -32601, "does not run as a task");
  await fails(peer.call("failing_job"), -32601, "parameter task");
}

async function noList(peer) {
  assert.equal(peer.client.getServerCapabilities().tasks?.list, undefined);
  const error = await peer.tasks().list().then(() => assert.fail("there is a list"), (reason) => reason);
  assert.match(`${error.code} ${error.message}`, /-32601/); // over HTTP, client 2.x gives the text of the response
}

async function recovery(peer, _, open) {
  peer.answers["elicitation/create"] = () => assert.fail("the first client is asked");
  const started = await peer.tasks().start("confirm_delete", { filename: "b.txt" });
  const reference = await started.leave();
  await peer.client.close();
  const other = await open();
  try {
    other.answers["elicitation/create"] = () => accept({ confirm: true });
    const { result } = await other.tasks().resume(reference);
    assert.equal(text(result), "b.txt deleted: true");
    assert.equal(other.asked.length, 1);
  } finally {
    await other.client.close();
  }
}

async function notifications(peer) {
  const tasks = peer.tasks();
  const { id, end } = await tasks.start("slow_compute", { seconds: 0.3, label: "pi" });
  const { status, result } = await tasks.hear(id, "completed");
  assert.equal(status, "completed");
  assert.equal(text(result), "pi: computed for 0.3 s");
  await end();
}
