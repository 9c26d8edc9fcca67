// The keys for requests. They act on the selected card; no key both selects and decides.

const KEYS = {
	j: (requests) => requests.move(1),
	k: (requests) => requests.move(-1),
	ArrowDown: (requests) => requests.move(1),
	ArrowUp: (requests) => requests.move(-1),
	a: (requests) => requests.selected?.accept(),
	r: (requests) => requests.selected?.startRejecting(),
};

/** Does what a key means for a list of requests. Returns false if it means nothing. */
export function press(requests, key, event) {
	if (!Object.hasOwn(KEYS, key)) return false;
	if (key.startsWith("Arrow") && event.target.matches(".arguments")) return true; // scrolls
	event.preventDefault();
	if (!event.repeat || (key !== "a" && key !== "r")) KEYS[key](requests); // otherwise the key is held down
	return true;
}

/** Leaves a field of a request for its card, where the keys act. */
export const leaveField = ({ target }) => target.closest(".card")?.focus();
