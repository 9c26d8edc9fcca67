// The selected call.

import { layOut } from "./arguments.js";
import { confirmed } from "./confirm.js";
import { messageParts } from "./messages.js";
import { back, button, clock, longText, node, number, seen, took, untilNow } from "./nodes.js";
import { Parts } from "./parts.js";
import { decided, header, noticeList, waits } from "./summary.js";

const PHASES = [["person", "waited for a person"], ["queued", "waited for the server"], ["served", "at the server"]];

export class CallDetail {
	element = node("section", "pane detail");
	#parts = new Parts(this.element);
	#say = statusLine();
	#feed;
	#id;
	#shown; // the last answer
	#messages; // the last ones, on their tab
	#tab = "Summary";
	#reveal = false;

	constructor(feed) {
		this.#feed = feed;
		this.element.setAttribute("aria-label", "The selected call");
		this.element.tabIndex = -1;
		this.select(undefined);
	}

	select(id) {
		if (id === this.#id && this.#shown) return;
		this.#id = id;
		this.#shown = undefined;
		this.#reveal = false;
		if (this.element.contains(document.activeElement)) this.element.focus(); // what has the focus disappears
		this.#parts.show([]);
		this.element.scrollTop = 0;
		this.#say = statusLine();
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
			const messages = this.#tab === "Messages" ? await this.#feed.ask({ do: "messages", call: id, show: this.#reveal }) : undefined;
			if (id !== this.#id) return;
			this.#shown = shown;
			this.#messages = messages;
			this.#draw();
		} catch (error) {
			if (id !== this.#id || (this.#shown && this.#feed.calls.has(id))) return;
			this.#shown = undefined;
			this.#draw(error.message);
		}
	}

	/** Updates the times of a call that goes on. */
	tick() {
		if (this.#shown && !this.#shown.row.ended) this.#draw();
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
			this.#say.textContent = error.message;
		}
	}

	#draw(problem) {
		const last = this.#shown?.row ?? this.#feed.calls.get(this.#id);
		if (!last) {
			const why = this.#id === undefined ? "Select a call." : problem ?? "The call is not kept any more.";
			this.#parts.show([["back", "", () => back("Calls", "calls")], ["empty", why, () => node("p", "empty", why)]]);
			return;
		}
		const row = untilNow(last, this.#feed.now());
		const about = [
			[row.version, row.serverVersion].filter(Boolean).join(" → "), row.runs > 1 ? `${row.runs} runs` : "",
			row.task ? `as a task, asked for ${row.polls ?? 0} times` : "",
		].filter(Boolean).map((text) => ` · ${text}`).join("");
		const acts = this.#acts();
		this.#parts.show([
			["back", "", () => back("Calls", "calls")], ["header", [row.server, row.name, row.outcome], () => header(row)],
			["about", [row.at, row.by, row.caller, row.client, row.script, about], () => node("p", "quiet", clock(row.at), " · ", seen("", row.by ?? row.caller ?? ""), row.client ? node("span", "", " with ", seen("", row.client)) : "",
				about, row.script ? node("span", "", " · ", seen("", row.script)) : "")],
			["timeline", [row.took, row.person, row.queued, row.served], () => this.#timeline(row)],
			["acts", acts.map(({ textContent }) => textContent), () => node("div", "acts", ...acts)], ["say", "", () => this.#say], ...this.#content(),
		]);
	}

	#timeline(row) {
		const list = node("dl", "timeline");
		const rest = Math.max(0, row.took - row.person - row.queued - row.served);
		for (const [name, label] of [...PHASES, ["rest", "this program"]]) {
			const us = name === "rest" ? rest : row[name];
			if (us < 1 && name !== "served") continue;
			const part = node("i", name);
			part.dataset.us = us;
			part.style.width = `${Math.max(0.5, (us / Math.max(1, row.took)) * 100)}%`;
			list.append(node("dt", "", label), node("dd", "", node("span", "track", part), node("span", "v", took(us))));
		}
		return list;
	}

	async #cancel() {
		const { id, exposed } = this.#shown.row;
		if (!(await confirmed(`Cancel the call of ${exposed}?`, "Its caller gets an error, and the server is told. What it has done until now stays done.", "Cancel the call"))) return;
		try {
			await this.#feed.ask({ do: "cancel", call: id });
			this.#say.textContent = "Canceled.";
		} catch (error) {
			this.#say.textContent = error.message;
		}
	}

	#acts() {
		const acts = [];
		if (this.#shown && this.#feed.may("again")) acts.push(button("Call again…", () => this.#again(), { key: "t" }));
		if (this.#shown && !this.#shown.row.ended && this.#feed.may("cancel")) acts.push(button("Cancel the call…", () => this.#cancel()));
		if (this.#shown?.command && navigator.clipboard) acts.push(button("Copy as command", () => { this.copy(); this.#say.textContent = "Copied."; }, { key: "c" }));
		if (navigator.clipboard) acts.push(button("Copy link", () => { navigator.clipboard.writeText(location.href); this.#say.textContent = "Copied, without the token."; }));
		return acts;
	}

	#content() {
		const shown = this.#shown;
		if (!shown) return this.#feed.may("call") ? [] : [["viewer", "", () => node("p", "quiet", "This link shows names, times, outcomes and rules.")]];
		return [["tabs", this.#tab, () => this.#tabs()], ...{ Summary: () => this.#summary(shown), Why: () => this.#why(shown), Messages: () => this.#messageParts() }[this.#tab]()];
	}

	#messageParts() {
		return this.#messages ? messageParts(this.#messages, this.#feed, { id: this.#id, reveal: this.#reveal, refresh: () => this.refresh(), show: () => this.#show(), say: (text) => { this.#say.textContent = text; } }) : [];
	}

	#tabs() {
		const tabs = node("div", "tabs");
		for (const name of ["Summary", "Why", ...(this.#feed.may("messages") ? ["Messages"] : [])]) {
			const tab = button(name, () => { this.#tab = name; this.#draw(); if (name === "Messages") this.refresh(); }, { className: "tab" });
			tab.setAttribute("aria-pressed", name === this.#tab);
			tabs.append(tab);
		}
		return tabs;
	}

	#summary(shown) {
		const { row, decision, reason, missing, notices, dropped } = shown;
		const parts = [];
		if (row.outcome === "waiting") parts.push(["waits", "", waits]);
		if (row.effect) parts.push(["decision", [row.effect, row.rule, row.outcome, reason, decision], () => decided(row, reason, decision)]);
		if (missing) parts.push(["missing", missing, () => node("p", "quiet", `${missing}.`)]);
		if (row.progress && !row.ended) {
			const progress = `Progress ${row.progress}${row.total ? ` of ${row.total}` : ""}`;
			parts.push(["progress", progress, () => node("p", "quiet", progress)]);
		}
		parts.push(...this.#body("Arguments", shown.arguments), ...this.#body("Error", shown.failure, true), ...this.#body("Result", shown.result));
		if (notices.length > 0) parts.push(["notices", [notices.length, dropped], () => noticeList(notices, dropped)]);
		return parts;
	}

	/** Returns the parts of the arguments, an error or the result. */
	#body(title, body, plain = false) {
		if (!body) return [];
		const text = (name, content, layOut) => [`${title} ${name}`, content, () => {
			const pre = longText("pre", "json", content, layOut);
			pre.setAttribute("role", "group");
			pre.setAttribute("aria-label", title);
			return pre;
		}];
		const parts = [
			[title, { ...body, text: "", end: Boolean(body.end) }, () => this.#heading(title, body)],
			text("text", body.text, (part) => (plain ? seen("", part) : layOut(part))),
		];
		if (body.end) parts.push([`${title} gap`, "", () => node("p", "quiet", "…")], text("end", body.end, (part) => seen("", part)));
		return parts;
	}

	#heading(title, body) {
		const exact = !body.masked && !body.redacted && !body.end;
		const right = node("span", "right");
		if (body.masked) right.append(button("Show…", () => this.#show()));
		if (navigator.clipboard) {
			const copy = button("Copy", () => navigator.clipboard.writeText(body.text + (body.end ?? "")));
			copy.setAttribute("aria-label", `Copy: ${title}`);
			right.append(copy);
		}
		const notes = [`${number(body.bytes)} bytes`, exact ? "exact" : "", body.masked ? `${body.masked} masked by their names` : "", body.redacted ? "with a secret of the configuration replaced" : "", body.end ? "the middle is not kept" : ""];
		return node("h3", "", title, node("small", "", ` ${notes.filter(Boolean).join(" · ")}`), right);
	}

	async #show() {
		if (!(await confirmed("Show masked values?", "Everyone who sees this screen sees them. The server logs that they were shown.", "Show"))) return;
		this.#reveal = true;
		this.refresh();
	}

	#why({ why }) {
		if (why.length === 0) return [["no policy", "", () => node("p", "quiet", "No policy decided about this call, or what it decided about is not kept.")]];
		const step = ({ rule, effect, matched, why: text }) =>
			node("li", matched ? "matched" : "", seen("", rule, "code"), node("b", `effect ${effect}`, effect), node("span", "", matched ? "✓ " : "– ", seen("", text)));
		return [
			["policy", "", () => node("p", "quiet", "Every list and rule of the policy in force, in its order. The strictest match decides.")],
			["steps", why, () => node("ol", "steps", ...why.map(step))],
		];
	}
}

function statusLine() {
	const line = node("p", "say");
	line.setAttribute("role", "status");
	return line;
}
