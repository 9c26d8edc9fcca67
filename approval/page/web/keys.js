// Keyboard shortcuts. They act on the selected card; no key both selects and decides.

/** Adds the shortcuts for a list of requests, and for a help dialog. */
export function listen(requests, help) {
	const actions = {
		j: () => requests.move(1),
		k: () => requests.move(-1),
		ArrowDown: () => requests.move(1),
		ArrowUp: () => requests.move(-1),
		a: () => requests.selected?.accept(),
		r: () => requests.selected?.startRejecting(),
		"?": () => help.showModal(),
	};
	document.addEventListener("keydown", (event) => {
		const { key, target } = event;
		if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
		if (target.matches("input")) {
			if (key === "Escape") target.closest(".card")?.focus();
			return;
		}
		if (!Object.hasOwn(actions, key)) return;
		if (key.startsWith("Arrow") && target.matches(".arguments")) return; // scrolls
		event.preventDefault();
		if (event.repeat && (key === "a" || key === "r")) return; // the key is held down
		actions[key]();
	});
}
