// The last build of a program that is developed.

import { longText, node, number, seen, took } from "./nodes.js";

/** Shows a build in the page. */
export class BuildPanel {
	element = node("section", "build");
	#line = node("p", "");
	#more = node("div", "");

	constructor() {
		this.element.setAttribute("aria-label", "Build");
		this.element.hidden = true;
		this.#line.setAttribute("role", "status");
		this.element.append(this.#line, this.#more);
	}

	draw(build) {
		this.element.hidden = !build;
		if (!build) return;
		this.element.dataset.state = build.state;
		const file = build.file ? node("span", "", seen("file", build.file), " changed → ") : "";
		this.#line.replaceChildren(...[file, node("b", "", outcome(build))].filter(Boolean), ...(build.state === "built" && build.file ? [" → tools ", tools(build)] : []));
		this.#more.replaceChildren();
		if (build.text) {
			const text = longText("pre", "json", build.text, (part) => seen("", part));
			text.setAttribute("role", "group");
			text.setAttribute("aria-label", "Why the build failed");
			this.#more.append(node("p", "quiet", "The server from before the change, if there is one, goes on."), text);
		}
	}
}

function outcome({ state, took: us }) {
	return { building: "building …", built: `built in ${took(us)}`, failed: `failed after ${took(us)}` }[state];
}

/** Returns how many tools differ, with their names. */
function tools({ added, removed, changed }) {
	const shown = node("span", "tools-changed");
	for (const [sign, names, word] of [["+", added, "added"], ["−", removed, "removed"], ["~", changed, "changed"]]) {
		const count = node("span", "", `${sign}${number(names.length)}`);
		count.title = `${number(names.length)} ${word}`;
		shown.append(count, " ");
		for (const name of names.slice(0, 5)) shown.append(seen("code", name), " ");
		if (names.length > 5) shown.append("… ");
	}
	return shown;
}
