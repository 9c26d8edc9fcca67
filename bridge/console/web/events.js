// What happened to the servers and to the configuration.

import { clock, node, number, seen } from "./nodes.js";

const MAX_SHOWN = 100;

/** Returns the part with the last events, or those of one server: none, or [name, value, make]. */
export function happened(all, server) {
	const events = folded(all.filter((event) => server === undefined || event.server === server));
	if (events.length === 0) return [];
	return [["happened", events, () => node("section", "happened", node(server === undefined ? "h2" : "h3", "", "What happened"), node("ol", "events", ...events.map((event) => item(event, server))))]];
}

/** Returns the last events, the newest first. Those of a server that say the same one after the other are one, with their number. */
function folded(events) {
	const groups = [];
	const last = new Map(); // by server
	for (const event of events.toReversed()) {
		const group = last.get(event.server);
		if (event.server && group && says(group) === says(event)) {
			group.times++;
			group.first = event.at;
			continue;
		}
		if (groups.length === MAX_SHOWN) break;
		const begun = { ...event, times: 1, first: event.at };
		last.set(event.server, begun);
		groups.push(begun);
	}
	return groups;
}

/** Returns what an event says, without its pause before the next attempt. */
const says = ({ level, text, details = "" }) => JSON.stringify([level, text, details.replace(/ · again_in: [^ ]+$/, "")]);

function item({ at, level, text, details, server, times, first }, only) {
	const made = node("li", "", node("span", "time", clock(at)), node("span", "",
		server && !only ? node("span", "server", seen("", server), ": ") : "", seen("what-happened", text), details ? seen("quiet", ` · ${details}`) : "",
		times > 1 ? node("b", "", ` · ${number(times)} times since ${clock(first)}`) : ""));
	made.dataset.level = level;
	return made;
}
