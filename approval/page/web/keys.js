// The keyboard. A key acts on the selected card; none selects and decides at once.

/** Has keys act on a desk, and on a dialog that explains them. */
export function listen(desk, help) {
	const actions = {
		j: () => desk.move(1),
		k: () => desk.move(-1),
		ArrowDown: () => desk.move(1),
		ArrowUp: () => desk.move(-1),
		a: () => desk.selected?.accept(),
		r: () => desk.selected?.startRejecting(),
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
		if (key.startsWith("Arrow") && target.matches(".arguments")) return; // it scrolls
		event.preventDefault();
		if (event.repeat && (key === "a" || key === "r")) return; // the key is held down: it was meant once
		actions[key]();
	});
}
