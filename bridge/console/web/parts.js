// Changes of the page while a person reads it: what has not changed stays as it is, with its focus, scroll position and open parts.

const CONTROLS = "a, button, input, select, textarea, summary, [tabindex]";
const labelOf = (control) => control.getAttribute("aria-label") ?? control.textContent;

/** Replaces a node. The focus moves to the control with the same label. */
function replace(old, fresh) {
	const label = old.contains(document.activeElement) ? labelOf(document.activeElement) : undefined;
	old.replaceWith(fresh);
	if (label === undefined) return;
	[fresh, ...fresh.querySelectorAll(CONTROLS)].find((control) => control.matches(CONTROLS) && labelOf(control) === label)?.focus({ preventScroll: true });
}

/** Replaces those children of an element that differ from the ones of another element with as many. */
export function replaceChanged(old, fresh) {
	for (const [i, child] of [...fresh.children].entries()) {
		if (!old.children[i].isEqualNode(child)) replace(old.children[i], child);
	}
}

/** The children of an element. Each is made from a value, and stays until its value changes. */
export class Parts {
	#element;
	#shown = new Map(); // by name: the value as JSON, and the node

	constructor(element) {
		this.#element = element;
	}

	/** Shows parts, [name, value, make], in their order. make() returns the node for the value. */
	show(parts) {
		const names = new Set(parts.map(([name]) => name));
		for (const [name, { node }] of this.#shown) {
			if (names.has(name)) continue;
			node.remove();
			this.#shown.delete(name);
		}
		for (const [i, [name, value, make]] of parts.entries()) {
			const node = this.#nodeOf(name, JSON.stringify(value), make);
			const there = this.#element.children[i] ?? null;
			if (there !== node) this.#element.insertBefore(node, there);
		}
	}

	#nodeOf(name, json, make) {
		const shown = this.#shown.get(name);
		if (shown && shown.json === json) return shown.node; // both are undefined for the value undefined
		const node = make();
		if (shown) replace(shown.node, node);
		this.#shown.set(name, { json, node });
		return node;
	}
}
