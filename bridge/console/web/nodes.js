// Nodes, texts and numbers of the page.

import { element, timeOfDay } from "./element.js";
import { show } from "./visible.js";

/** Returns a new element with children: nodes and own texts. Others are left out. */
export function node(name, className, ...children) {
	const made = element(name, className);
	made.append(...children.filter((child) => child !== undefined && child !== ""));
	return made;
}

/** Returns an element with a text of a peer, in which each character is visible. */
export const seen = (className, text, name = "span") => show(element(name, className), text);

/** Returns a button that calls act. key is its shortcut. */
export function button(label, act, { key = "", className = "plain" } = {}) {
	const made = node("button", className, label, key && element("kbd", "", key));
	made.type = "button";
	made.onclick = act;
	return made;
}

/** Returns the link from a detail to its list, which narrow screens show. */
export function back(text, screen) {
	const link = node("a", "back", `← ${text}`);
	link.href = `#${screen}`;
	return link;
}

/** Formats microseconds. */
export function took(us) {
	const ms = us / 1000;
	if (ms >= 60_000) return `${(ms / 60_000).toFixed(1)} min`;
	if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
	if (ms >= 10) return `${Math.round(ms)} ms`;
	return ms >= 0.95 ? `${ms.toFixed(1)} ms` : "<1 ms";
}

/** Returns a row of a call with its times until now, if the call goes on. */
export function untilNow(row, now) {
	if (row.ended) return row;
	const since = Math.max(0, now - row.at - row.took);
	return { ...row, took: row.took + since, ...(row.open && { [row.open]: row[row.open] + since }) };
}

/** Formats the time of day of microseconds since 1970. */
export const clock = (us) => timeOfDay(new Date(us / 1000));

/** Formats how long ago microseconds since 1970 are. */
export function ago(us, now) {
	const seconds = Math.max(0, Math.round((now - us) / 1e6));
	if (seconds < 60) return `${seconds} s`;
	if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
	return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export const number = (n) => n.toLocaleString("en");

/** Waits for the next frame of the browser, so that no piece of work keeps it busy for long. */
export const breath = () => new Promise((resolve) => setTimeout(resolve));

const CHUNK = 8 << 10; // characters that are laid out at a time

/** Returns an element with a text of a peer, of which more is added as long as it is in the page. */
export function longText(name, className, text, layOut) {
	const made = element(name, className);
	made.tabIndex = 0;
	if (text.length <= CHUNK) {
		made.append(layOut(text));
		return made;
	}
	(async () => {
		for (let from = 0; from < text.length; ) {
			const to = endOfLine(text, from + CHUNK);
			made.append(seen("", text.slice(from, to)));
			from = to;
			await breath();
			if (!made.isConnected && from > 2 * CHUNK) return;
		}
	})();
	return made;
}

/** Returns a position where a text may be cut: not within a character. */
function endOfLine(text, at) {
	const code = text.charCodeAt(at - 1);
	return code >= 0xd800 && code < 0xdc00 ? at + 1 : at;
}
