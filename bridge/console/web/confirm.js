// A question before an action.

import { seen } from "./nodes.js";

const ARMED_AFTER = 500; // milliseconds; an earlier click was meant for what was there before

const part = (selector) => document.querySelector(`.confirm ${selector}`);

/** Asks whether to do something, and returns the answer. */
export function confirmed(question, explanation, yes) {
	const dialog = document.querySelector(".confirm");
	part("h2").replaceChildren(seen("", question)); // with names of peers
	part(".what").replaceChildren(seen("", explanation));
	part(".accept").textContent = yes;
	dialog.returnValue = "no";
	const shown = performance.now();
	dialog.showModal();
	part("button[value=no]").focus();
	return new Promise((resolve) => {
		part(".accept").onclick = (event) => {
			if (performance.now() - shown < ARMED_AFTER) event.preventDefault();
		};
		dialog.onclose = () => resolve(dialog.returnValue === "yes");
	});
}
