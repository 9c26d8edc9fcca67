// The arguments of a call, laid out line by line. White space between tokens is all that the
// layout changes; the tokens stand there as they came, duplicates and escapes included.

import { element } from "./element.js";
import { closes, opens, tokens } from "./json.js";
import { show } from "./visible.js";

// How deep lines are indented at most; arguments may be a thousand levels deep.
const MAX_INDENT = 24;

const indent = (depth) => "\n" + "  ".repeat(Math.min(depth, MAX_INDENT));

/** A JSON text as nodes for an element that keeps white space. */
export function layOut(json) {
	const out = document.createDocumentFragment();
	const list = tokens(json);
	let depth = 0;
	for (const [i, { text }] of list.entries()) {
		const before = list[i - 1]?.text;
		if (closes(text)) depth--;
		if (startsLine(text, before)) out.append(indent(depth));
		out.append(nodeOf(text, list[i + 1]?.text === ":", depth));
		if (text === ":") out.append(" ");
		if (opens(text)) depth++;
	}
	return out;
}

/** An empty object or array stays on its line. */
function startsLine(token, before) {
	if (closes(token)) return !opens(before);
	return before === "," || (before !== undefined && opens(before));
}

function nodeOf(token, isName, depth) {
	if (token[0] === '"') return string(token, isName ? "name" : "string", depth);
	if (/^[{}[\]:,]$/.test(token)) return element("span", "mark", token);
	return element("span", /^[-\d]/.test(token) ? "number" : "literal", token);
}

/**
 * A string with its quotes and escapes. After an escaped line break the line ends, so that
 * a text can be read. Each line has the ground of a string: none can be taken for more
 * arguments, and what stands before it is no part of it.
 */
function string(token, className, depth) {
	const node = element("span", className);
	let line = element("span", "line");
	node.append(line);
	for (const part of token.split(/(\\(?:u[0-9a-fA-F]{4}|.))/)) {
		if (part[0] !== "\\") {
			show(line, part);
			continue;
		}
		line.append(element("span", "escape", part));
		if (part === "\\n") {
			line = element("span", "line");
			node.append(element("span", "break", indent(depth + 1)), line);
		}
	}
	return node;
}
