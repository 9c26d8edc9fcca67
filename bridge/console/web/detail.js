// The selected call.

import { layOut } from "./arguments.js";
import { confirmed } from "./confirm.js";
import { button, clock, longText, node, number, seen, took } from "./nodes.js";

const PHASES = [["person", "a person decided"], ["queued", "waited for the server"], ["served", "at the server"]];

export class CallDetail {
	element = node("section", "pane detail");
	#feed;
	#id;
	#shown; // the last answer
	#tab = "Summary";
	#reveal = false;

	constructor(feed) {
		this.#feed = feed;
		this.element.setAttribute("aria-label", "The selected call");
		this.select(undefined);
	}

	select(id) {
		if (id === this.#id && this.#shown) return;
		this.#id = id;
		this.#shown = undefined;
		this.#reveal = false;
		this.#draw();
		this.refresh();
	}

	/** Gets the call again if it is the selected one. */
	changed(ids) {
		if (ids.includes(this.#id)) this.refresh();
	}

	async refresh() {
		const id = this.#id;
		if (id === undefined) return;
		if (!this.#feed.may("call")) {
			this.#draw();
			return;
		}
		try {
			const shown = await this.#feed.ask({ do: "call", call: id, show: this.#reveal });
			if (id !== this.#id) return;
			this.#shown = shown;
			this.#draw();
		} catch (error) {
			if (id === this.#id && !this.#shown) this.#draw(error.message);
		}
	}

	again() {
		if (this.#shown && this.#feed.may("again")) this.#again();
	}

	copy() {
		if (this.#shown?.command) navigator.clipboard?.writeText(this.#shown.command);
	}

	async #again() {
		const row = this.#shown.row;
		if (!(await confirmed(`Call ${row.exposed} again?`, "The server gets the same arguments, byte for byte. The policy and approvals apply to you.", "Call"))) return;
		try {
			const { call } = await this.#feed.ask({ do: "again", call: row.id });
			location.hash = `#calls/${call}`;
		} catch (error) {
			this.#say(error.message);
		}
	}

	#say(text) {
		this.element.querySelector(".say").textContent = text;
	}

	#draw(problem) {
		const back = node("a", "back", "← Calls");
		back.href = "#calls";
		const row = this.#shown?.row ?? this.#feed.calls.get(this.#id);
		if (!row) {
			this.element.replaceChildren(back, node("p", "empty", this.#id === undefined ? "Select a call." : problem ?? "The call is not kept any more."));
			return;
		}
		const state = node("b", "state", row.outcome);
		state.dataset.outcome = row.outcome;
		const say = node("p", "say");
		say.setAttribute("role", "status");
		this.element.replaceChildren(
			back, node("header", "", node("h2", "", row.server ? seen("server", `${row.server}.`) : "", seen("", row.name)), state),
			node("p", "quiet", clock(row.at), " · ", seen("", row.by ?? row.caller ?? ""), row.client ? node("span", "", " with ", seen("", row.client)) : "",
				` · ${row.version || "no version"}${row.serverVersion ? ` → ${row.serverVersion}` : ""}${row.runs > 1 ? ` · ${row.runs} runs` : ""}${row.task ? ` · as a task, asked for ${row.polls ?? 0} times` : ""}`,
				row.script ? node("span", "", " · ", seen("", row.script)) : ""),
			this.#timeline(row), this.#acts(), say, ...this.#content());
	}

	#timeline(row) {
		const list = node("dl", "timeline");
		const rest = Math.max(0, row.took - row.person - row.queued - row.served);
		for (const [name, label] of [...PHASES, ["rest", "this program"]]) {
			const us = name === "rest" ? rest : row[name];
			if (us < 1 && name !== "served") continue;
			const part = node("i", name);
			part.style.width = `${Math.max(0.5, (us / Math.max(1, row.took)) * 100)}%`;
			list.append(node("dt", "", label), node("dd", "", node("span", "track", part), node("span", "v", took(us))));
		}
		return list;
	}

	#acts() {
		const shown = this.#shown;
		const acts = node("div", "acts");
		if (shown && this.#feed.may("again")) acts.append(button("Call again…", () => this.#again(), { key: "t" }));
		if (shown?.command && navigator.clipboard) acts.append(button("Copy as command", () => { this.copy(); this.#say("Copied."); }, { key: "c" }));
		if (navigator.clipboard) acts.append(button("Copy link", () => { navigator.clipboard.writeText(location.href); this.#say("Copied, without the token."); }));
		return acts;
	}

	#content() {
		const shown = this.#shown;
		if (!shown) return this.#feed.may("call") ? [] : [node("p", "quiet", "This link shows names, times, outcomes and rules.")];
		const tabs = node("div", "tabs");
		for (const name of ["Summary", "Why"]) {
			const tab = button(name, () => { this.#tab = name; this.#draw(); }, { className: "tab" });
			tab.setAttribute("aria-pressed", name === this.#tab);
			tabs.append(tab);
		}
		return [tabs, ...(this.#tab === "Why" ? this.#why(shown) : this.#summary(shown))];
	}

	#summary(shown) {
		const row = shown.row;
		const parts = [];
		if (row.effect) {
			const by = shown.decision ? node("span", "quiet", ` · ${shown.decision.approved ? "accepted" : "refused"} by `, seen("", shown.decision.by || "a person"), shown.decision.reason ? seen("", `: ${shown.decision.reason}`) : "") : "";
			parts.push(node("p", "why", node("b", `effect ${row.effect}`, { ask: "Asked", allow: "Allowed", deny: "Denied" }[row.effect]), " by the rule ", seen("", row.rule || "without a name", "code"), shown.reason ? seen("", `: ${shown.reason}`) : "", by));
		}
		if (shown.missing) parts.push(node("p", "quiet", `${shown.missing}.`));
		if (row.progress && !row.ended) parts.push(node("p", "quiet", `Progress ${row.progress}${row.total ? ` of ${row.total}` : ""}`));
		parts.push(...this.#body("Arguments", shown.arguments), ...this.#body("Error", shown.failure, true), ...this.#body("Result", shown.result));
		if (shown.notices.length > 0) parts.push(node("h3", "", "Messages"), this.#notices(shown));
		return parts;
	}

	#notices({ notices, dropped }) {
		const list = node("ol", "notices");
		if (dropped) list.append(node("li", "quiet", `${number(dropped)} earlier ones are not kept`));
		for (const { at, level, text } of notices.slice(-50)) list.append(node("li", "", node("span", "time", clock(at)), seen("quiet", level), seen("", text)));
		return list;
	}

	/** Returns the nodes of the arguments, an error or the result. */
	#body(title, body, plain = false) {
		if (!body) return [];
		const exact = !body.masked && !body.redacted && !body.end;
		const right = node("span", "right");
		if (body.masked) right.append(button("Show…", () => this.#show()));
		if (navigator.clipboard) right.append(button("Copy", () => navigator.clipboard.writeText(body.text + (body.end ?? ""))));
		const notes = [`${number(body.bytes)} bytes`, exact ? "exact" : "", body.masked ? `${body.masked} masked by their names` : "", body.redacted ? "with a secret of the configuration replaced" : "", body.end ? "the middle is not kept" : ""];
		const heading = node("h3", "", title, node("small", "", ` ${notes.filter(Boolean).join(" · ")}`), right);
		const parts = [heading, longText("pre", "json", body.text, (text) => (plain ? seen("", text) : layOut(text)))];
		if (body.end) parts.push(node("p", "quiet", "…"), longText("pre", "json", body.end, (text) => seen("", text)));
		for (const pre of parts.slice(1)) if (pre.tagName === "PRE") { pre.setAttribute("role", "group"); pre.setAttribute("aria-label", title); }
		return parts;
	}

	async #show() {
		if (!(await confirmed("Show masked values?", "Everyone who sees this screen sees them. The server logs that they were shown.", "Show"))) return;
		this.#reveal = true;
		this.refresh();
	}

	#why({ why }) {
		if (why.length === 0) return [node("p", "quiet", "No policy decided about this call, or what it decided about is not kept.")];
		const steps = why.map(({ rule, effect, matched, why: text }) =>
			node("li", matched ? "matched" : "", seen("", rule, "code"), node("b", `effect ${effect}`, effect), node("span", "", matched ? "✓ " : "– ", seen("", text))));
		return [node("p", "quiet", "Every list and rule of the policy in force, in its order. The strictest match decides."), node("ol", "steps", ...steps)];
	}
}
