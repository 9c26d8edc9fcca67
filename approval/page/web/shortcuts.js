// The shortcuts for requests. They act on the selected card; no key both selects and decides.

import { onKeys } from "./keys.js";

/** Adds the shortcuts for a list of requests, and for a help dialog. enabled() returns whether they are on. */
export function listen(requests, help, enabled) {
	const actions = {
		j: () => requests.move(1),
		k: () => requests.move(-1),
		ArrowDown: () => requests.move(1),
		ArrowUp: () => requests.move(-1),
		a: () => requests.selected?.accept(),
		r: () => requests.selected?.startRejecting(),
		"?": () => help.showModal(),
	};
	onKeys(enabled, (key, event) => {
		if (!Object.hasOwn(actions, key)) return;
		if (key.startsWith("Arrow") && event.target.matches(".arguments")) return; // scrolls
		event.preventDefault();
		if (event.repeat && (key === "a" || key === "r")) return; // the key is held down
		actions[key]();
	}, ({ target }) => target.closest(".card")?.focus());
}
