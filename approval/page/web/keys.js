// Keyboard shortcuts. They act on the selected card; no key both selects and decides. The person can
// switch them off (WCAG 2.2, success criterion 2.1.4). They never act in a field for text or a choice.

import { isOn, onChange, set } from "./settings.js";

const SETTING = "shortcuts";
const FIELDS = "input, textarea, select, [contenteditable]";

/** Connects a checkbox that switches the shortcuts on and off. */
export function switchable(checkbox) {
	const show = () => {
		checkbox.checked = isOn(SETTING, true);
		document.body.classList.toggle("no-shortcuts", !checkbox.checked);
	};
	checkbox.onchange = () => {
		set(SETTING, checkbox.checked);
		document.body.classList.toggle("no-shortcuts", !checkbox.checked); // also without storage
	};
	onChange(show);
	show();
	return () => checkbox.checked;
}

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
	document.addEventListener("keydown", (event) => {
		const { key, target } = event;
		if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
		if (target.closest(FIELDS)) {
			if (key === "Escape") target.closest(".card")?.focus();
			return;
		}
		if (!enabled()) return;
		if (!Object.hasOwn(actions, key)) return;
		if (key.startsWith("Arrow") && target.matches(".arguments")) return; // scrolls
		event.preventDefault();
		if (event.repeat && (key === "a" || key === "r")) return; // the key is held down
		actions[key]();
	});
}
