// The policy in force, and what another one would have decided on the kept calls.

import { button, clock, node, number, seen } from "./nodes.js";

export class PolicyScreen {
	element = node("section", "pane policy");
	#feed;
	#inForce; // the last answer
	#state = node("div", "force");
	#text = node("textarea", "");
	#result = node("div", "result");

	constructor(feed) {
		this.#feed = feed;
		this.#text.spellcheck = false;
		this.#text.setAttribute("aria-label", "A policy");
		this.#result.setAttribute("aria-live", "polite");
		this.element.setAttribute("aria-label", "Policy");
		this.element.append(
			node("h2", "", "What would this policy have decided?"), this.#state,
			node("p", "quiet", "Edit it here, or paste another one. What is here is neither saved nor applied."), this.#text,
			node("div", "acts", button("Try it on the kept calls", () => this.#try(), { className: "plain accept" }), button("Show the policy in force", () => this.#reset())), this.#result);
	}

	/** Gets the policy in force, and shows it unless the text was edited. */
	async load() {
		if (!this.#feed.may("policy")) return;
		try {
			const edited = this.#text.value !== (this.#inForce?.text ?? "");
			this.#inForce = await this.#feed.ask({ do: "policy" });
			if (!edited) this.#reset();
			const { file, digest, since, refused } = this.#inForce;
			const parts = [node("p", "quiet", "In force: ", file ? seen("", file) : "the policy of this program", since ? `, since ${clock(since)}` : "", ` · ${digest}`)];
			if (refused) parts.push(node("p", "error", "A newer text is not in force: ", seen("", refused)));
			this.#state.replaceChildren(...parts);
		} catch (error) {
			this.#state.replaceChildren(node("p", "error", error.message));
		}
	}

	#reset() {
		this.#text.value = this.#inForce?.text ?? "";
		this.#result.replaceChildren();
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
			this.#result.replaceChildren(node("p", "error", seen("", `${this.#inForce?.file || "policy"}:${line ? `${line}:${column}:` : ""} ${problem}`)));
			if (line) this.#moveTo(line, column);
			return;
		}
		const rows = changed.map(({ from, to, count, examples }) => node("tr", "",
			node("td", "", `${from} → ${to}`), node("td", "num", number(count)),
			node("td", "", ...examples.flatMap(({ call, exposed, rule }) => {
				const link = seen("", exposed, "a");
				link.href = `#calls/${call}`;
				return [link, rule ? node("span", "quiet", " by ", seen("", rule), " ") : " "];
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
