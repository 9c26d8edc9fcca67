// The messages of the selected call.

import { layOut } from "./arguments.js";
import { button, clock, longText, node, number, seen } from "./nodes.js";

const FROM = { client: "from the client", "to client": "to the client", server: "from the server", "to server": "to the server" };

/** Returns the parts of the messages of a call. refresh gets them again, show those with their masked values, and say says what was done. */
export function messageParts({ recording, messages, folded }, feed, { id, reveal, refresh, show, say }) {
	const record = () => feed.ask({ do: "record", on: true }).then(refresh, () => {}); // without a connection, the page says so
	const parts = [["recording", [recording, messages.length > 0], () => node("p", "quiet recording", state(recording, messages.length), recording ? "" : button("Record messages", record))]];
	const ofServer = messages.filter(({ from }) => from === "server" || from === "to server");
	const savable = feed.may("save") && ofServer.some(({ from }) => from === "server");
	const cut = ofServer.some(({ end }) => end);
	if (savable && cut) parts.push(["save", "cut", () => node("p", "quiet", "This call cannot be saved as a transcript: a message is longer than 64 KiB, and not kept as a whole.")]);
	else if (savable) parts.push(["save", [id, reveal], () => node("p", "quiet", button("Save as a transcript", () => save(feed, id, reveal).then(() => say("Saved."), (error) => say(error.message))), " for ", node("code", "", "dovetail replay"))]);
	const masked = messages.reduce((sum, message) => sum + (message.masked ?? 0), 0);
	if (masked > 0) parts.push(["masked", masked, () => node("p", "quiet", `${number(masked)} values are masked by their names. `, button("Show…", show))]);
	for (const [i, message] of messages.entries()) parts.push([`message ${i} ${message.at}`, message, () => one(message)]);
	for (const [what, count] of Object.entries(folded)) parts.push([`folded ${what}`, count, () => node("p", "quiet", "and ", seen("", what, "code"), ` ${number(count)} more times`)]);
	return parts;
}

/** Downloads the messages between this program and the server, with masked values unless they are shown. */
async function save(feed, id, reveal) {
	const { file, text } = await feed.ask({ do: "save", call: id, show: reveal });
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([text]));
	link.download = file;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the download may begin later
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
