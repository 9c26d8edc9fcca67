// The frames of the channel: JSON-RPC 2.0, as package approval/channel describes it.

import { members } from "./json.js";

export const PROTOCOL = "dovetail.approval.v1";

/**
 * Reads a frame as {method, params}. The params of approve are a request. The params of withdrawn and
 * refused are {id, reason, decision, by, why, remember}, of which the last four describe the decision
 * of another approver, if there is one. The params of registered are {}. Any other frame throws an error.
 */
export function readFrame(frame) {
	JSON.parse(frame); // throws if it is not JSON
	const message = members(frame);
	const method = textOf(message, "method");
	const params = members(message.get("params"));
	switch (method) {
		case "approve":
			return { method, params: readRequest(frame, message.get("id"), params) };
		case "registered":
			return { method, params: {} };
		case "withdrawn":
		case "refused":
			return { method, params: readEnd(params) };
	}
	throw new Error(`unknown method ${method}`);
}

function readEnd(params) {
	return {
		id: textOf(params, "id"),
		reason: textOf(params, "reason"),
		decision: textOf(params, "decision"),
		by: textOf(params, "by"),
		why: textOf(params, "decision_reason"),
		remember: secondsOf(params, "remember"),
	};
}

// The name of a server that the caller has launched begins so, because the caller has chosen the name.
const LAUNCHED = "launched:";

/** Reads a request. Its arguments are the exact text of the frame. */
function readRequest(frame, answerTo, params) {
	const request = {
		frame,
		answerTo,
		id: textOf(params, "call_id"),
		server: (flagOf(params, "launched") ? LAUNCHED : "") + textOf(params, "server_name"),
		tool: textOf(params, "tool_name"),
		arguments: params.get("tool_args"),
		digest: textOf(params, "args_digest"),
		launch: textOf(params, "launch"),
		toolDigest: textOf(params, "tool_digest"),
		caller: textOf(params, "caller"),
		script: textOf(params, "script"),
		created: new Date(textOf(params, "created")),
		deadline: new Date(textOf(params, "deadline")),
		title: textOf(params, "title"),
		description: textOf(params, "description"),
		readOnly: flagOf(params, "read_only"),
		destructive: flagOf(params, "destructive"),
		trusted: flagOf(params, "trusted") === true,
		rule: textOf(params, "rule"),
		reason: textOf(params, "reason"),
		remember: secondsOf(params, "remember"),
	};
	if (!request.id || !answerTo || request.arguments?.[0] !== "{") throw new Error("expected an id and arguments");
	if (isNaN(request.created) || isNaN(request.deadline)) throw new Error("expected times");
	return request;
}

/** Returns a string member, "" if it is missing. */
function textOf(object, name) {
	const value = object.get(name) ?? '""';
	if (value[0] !== '"') throw new Error(`${name} must be a string`);
	return JSON.parse(value);
}

/** Returns a boolean member, undefined if it is missing. */
const flagOf = (object, name) => ({ true: true, false: false })[object.get(name)];

/** Returns a member that is a number of seconds, 0 if it is missing. */
function secondsOf(object, name) {
	const value = object.get(name) ?? "0";
	if (!/^\d{1,10}$/.test(value)) throw new Error(`${name} must be a whole number of seconds`);
	return Number(value);
}

/** remember is the number of seconds for which equal calls are accepted too; 0 for none. */
export const acceptance = (request, remember) =>
	`{"jsonrpc":"2.0","result":true,${remember > 0 ? `"remember":${remember},` : ""}"id":${request.answerTo}}`;

export const rejection = (request, reason) =>
	`{"jsonrpc":"2.0","result":false,"reason":${JSON.stringify(reason)},"id":${request.answerTo}}`;

/** Compares the SHA-256 of bytes with hexadecimal digits; undefined if the browser cannot. */
export async function matchesDigest(bytes, digest) {
	if (!globalThis.crypto?.subtle) return undefined; // exists only for https: and localhost
	const sum = await crypto.subtle.digest("SHA-256", bytes);
	const digits = Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0")).join("");
	return digits === digest;
}
