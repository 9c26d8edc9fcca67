// What happened to the servers and to the configuration.

import { clock, node, seen } from "./nodes.js";

const MAX_SHOWN = 100;

/** Returns the part with the last events, or those of one server: none, or [name, value, make]. */
export function happened(all, server) {
	const events = all.filter((event) => server === undefined || event.server === server).slice(-MAX_SHOWN).reverse();
	if (events.length === 0) return [];
	return [["happened", events, () => node("section", "happened", node(server === undefined ? "h2" : "h3", "", "What happened"), node("ol", "events", ...events.map((event) => item(event, server))))]];
}

function item({ at, level, text, details, server }, only) {
	const made = node("li", "", node("span", "time", clock(at)), node("span", "",
		server && !only ? node("span", "server", seen("", server), ": ") : "", seen("what-happened", text), details ? seen("quiet", ` · ${details}`) : ""));
	made.dataset.level = level;
	return made;
}
