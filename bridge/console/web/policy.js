// What another policy would have decided on the kept calls.

import { button, node, number, seen } from "./nodes.js";

const START = `{
  "rules": [
    {"name": "reading", "effect": "allow", "annotations": {"readOnlyHint": true}},
    {"name": "else", "effect": "ask"}
  ]
}
`;

export class PolicyScreen {
	element = node("section", "pane policy");
	#feed;
	#text = node("textarea", "");
	#result = node("div", "result");

	constructor(feed) {
		this.#feed = feed;
		this.#text.value = START;
		this.#text.spellcheck = false;
		this.#text.setAttribute("aria-label", "A policy");
		this.#result.setAttribute("aria-live", "polite");
		this.element.setAttribute("aria-label", "Policy");
		this.element.append(
			node("h2", "", "What would this policy have decided?"),
			node("p", "quiet", "Edit a policy here, or paste one. It is neither saved nor applied."), this.#text,
			node("div", "acts", button("Try it on the kept calls", () => this.#try(), { className: "plain accept" })), this.#result);
	}

	async #try() {
		try {
			this.#show(await this.#feed.ask({ do: "whatif", text: this.#text.value }));
		} catch (error) {
			this.#result.replaceChildren(node("p", "error", error.message));
		}
	}

	#show({ problem, line, column, calls, changed, unknown, warnings }) {
		if (problem) {
			this.#result.replaceChildren(node("p", "error", line ? `Line ${line}, column ${column}: ` : "", seen("", problem)));
			if (line) this.#moveTo(line, column);
			return;
		}
		const rows = changed.map(({ from, to, count, examples }) => node("tr", "",
			node("td", "", `${from} → ${to}`), node("td", "num", number(count)),
			node("td", "", ...examples.flatMap(({ call, exposed, rule }) => {
				const link = seen("", exposed, "a");
				link.href = `#calls/${call}`;
				return [link, rule ? seen("quiet", ` by ${rule} `) : " "];
			}))));
		const parts = [node("p", "", `${number(calls)} kept calls on which a policy decided. ${changed.length === 0 ? "The decision on none of them changes." : ""}`)];
		if (rows.length > 0) {
			const heads = ["Decision", "Calls", "Such as"].map((text) => {
				const th = node("th", "", text);
				th.scope = "col";
				return th;
			});
			parts.push(node("table", "changes", node("thead", "", node("tr", "", ...heads)), node("tbody", "", ...rows)));
		}
		if (unknown > 0) parts.push(node("p", "quiet", `${number(unknown)} are unknown: their arguments are not kept.`));
		for (const warning of warnings) parts.push(node("p", "warn", "Probably a mistake: ", seen("", warning)));
		this.#result.replaceChildren(...parts);
	}

	/** Moves the cursor. Columns count bytes. */
	#moveTo(line, column) {
		const lines = this.#text.value.split("\n");
		const before = lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0);
		const bytes = new TextEncoder().encode(lines[line - 1] ?? "");
		const at = before + new TextDecoder().decode(bytes.slice(0, column - 1)).length;
		this.#text.focus();
		this.#text.setSelectionRange(at, at + 1);
	}
}
