// The messages of the selected call.

import { layOut } from "./arguments.js";
import { button, clock, longText, node, number, seen } from "./nodes.js";

const FROM = { client: "from the client", "to client": "to the client", server: "from the server", "to server": "to the server" };

/** Returns the parts of the messages of a call. refresh gets them again, and show those with their masked values. */
export function messageParts({ recording, messages, folded }, feed, refresh, show) {
	const record = () => feed.ask({ do: "record", on: true }).then(refresh, () => {}); // without a connection, the page says so
	const parts = [["recording", [recording, messages.length > 0], () => node("p", "quiet recording", state(recording, messages.length), recording ? "" : button("Record messages", record))]];
	const masked = messages.reduce((sum, message) => sum + (message.masked ?? 0), 0);
	if (masked > 0) parts.push(["masked", masked, () => node("p", "quiet", `${number(masked)} values are masked by their names. `, button("Show…", show))]);
	for (const [i, message] of messages.entries()) parts.push([`message ${i} ${message.at}`, message, () => one(message)]);
	for (const [what, count] of Object.entries(folded)) parts.push([`folded ${what}`, count, () => node("p", "quiet", "and ", seen("", what, "code"), ` ${number(count)} more times`)]);
	return parts;
}

function state(recording, count) {
	if (recording) return count ? "" : "No message of this call is kept.";
	return `${count ? "" : "No message of this call is kept. "}Messages are kept only while they are recorded. `;
}

function one({ at, from, version, what, text, end, bytes, redacted }) {
	const notes = [`${number(bytes)} bytes`, redacted ? "with a secret of the configuration replaced" : "", end ? "the middle is not kept" : ""].filter(Boolean).join(" · ");
	const shown = node("details", "message", node("summary", "", node("span", "time", clock(at)), " ", node("b", "", FROM[from]), " ", seen("", what, "code"), node("small", "", ` ${version} · ${notes}`)));
	shown.addEventListener("toggle", () => {
		if (!shown.open || shown.children.length > 1) return;
		for (const [part, lay] of [[text, layOut], [end, (piece) => seen("", piece)]]) {
			if (!part) continue;
			const pre = longText("pre", "json", part, lay);
			pre.setAttribute("role", "group");
			pre.setAttribute("aria-label", `The message ${what}`);
			shown.append(pre);
		}
	});
	return shown;
}
