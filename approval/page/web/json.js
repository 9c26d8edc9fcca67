// JSON texts cut into pieces without being decoded. JSON.parse would round 9007199254740993,
// keep one of two members with the same name, and turn escapes into what they stand for.
// Whoever calls has found the text to be JSON before.

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g;

/** The tokens of a JSON text, in order: {text, start, end}. Between them is white space only. */
export function tokens(json) {
	return Array.from(json.matchAll(TOKEN), ({ 0: text, index }) => ({ text, start: index, end: index + text.length }));
}

/** The members of a JSON object by their names, each value as the text that stands there. */
export function members(json) {
	const list = tokens(json);
	if (list[0].text !== "{") throw new Error("expected an object");
	const found = new Map();
	for (let at = 1; list[at].text !== "}"; ) {
		const name = JSON.parse(list[at].text);
		if (found.has(name)) throw new Error(`the member ${name} stands there twice`);
		const first = at + 2; // after the colon
		const last = endOfValue(list, first);
		found.set(name, json.slice(list[first].start, list[last].end));
		at = list[last + 1].text === "," ? last + 2 : last + 1;
	}
	return found;
}

export const opens = (token) => token === "{" || token === "[";
export const closes = (token) => token === "}" || token === "]";

/** The index of the last token of the value that begins at first. */
function endOfValue(list, first) {
	let depth = 0;
	for (let at = first; ; at++) {
		if (opens(list[at].text)) depth++;
		if (closes(list[at].text)) depth--;
		if (depth === 0) return at;
	}
}
