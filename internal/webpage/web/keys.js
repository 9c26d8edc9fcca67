// Keyboard shortcuts that the person can switch off (WCAG 2.2, success criterion 2.1.4). They never act in a field for text or a
// choice.

import { isOn, onChange, set } from "./settings.js";

const SETTING = "shortcuts";
const FIELDS = "input, textarea, select, [contenteditable]";

/** Connects a checkbox that switches the shortcuts on and off, and returns a function that says whether they are on. */
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

/** Calls press(key, event) for each key outside of fields while enabled() is true, and leave(event) for Escape in a field. */
export function onKeys(enabled, press, leave) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
		if (event.target.closest(FIELDS)) {
			if (event.key === "Escape") leave(event);
			return;
		}
		if (enabled()) press(event.key, event);
	});
}
