// The servers of the bridge.

import { confirmed } from "./confirm.js";
import { TryForm } from "./form.js";
import { ago, button, clock, node, number, seen, took } from "./nodes.js";

const SVG = "http://www.w3.org/2000/svg";
const HEADS = ["Server", "State", "Calls", "Failed", "p50", "p95", "Slowest", "Running", "Restarts", "Tools", "≈ Tokens"];

export class ServerList {
	element = node("section", "pane list");
	#feed;
	#selected;

	constructor(feed) {
		this.#feed = feed;
		this.element.setAttribute("aria-label", "Servers");
	}

	select(alias) {
		this.#selected = alias;
		this.draw();
	}

	next(by) {
		const all = this.#feed.servers.map(({ alias }) => alias);
		const at = all.indexOf(this.#selected);
		return all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
	}

	draw() {
		const servers = this.#feed.servers;
		if (servers.length === 0) {
			this.element.replaceChildren(node("p", "empty", "There is no server behind this one."));
			return;
		}
		const tokens = servers.reduce((sum, s) => sum + s.tokens, 0);
		const head = node("tr", "", ...HEADS.map((text, i) => {
			const th = node("th", i > 1 && i !== 6 ? "num" : "", text);
			th.scope = "col";
			return th;
		}));
		const table = node("table", "servers", node("caption", "visually-hidden", "Servers, numbers of the last 5 minutes"), node("thead", "", head), node("tbody", "", ...servers.map((s) => this.#row(s))));
		const scroll = node("div", "scroll", table);
		scroll.tabIndex = 0;
		scroll.setAttribute("role", "group");
		scroll.setAttribute("aria-label", "Servers");
		this.element.replaceChildren(
			node("p", "strip", "Numbers of the last 5 minutes. A list of all tools costs a model about ", node("b", "", `${number(tokens)} tokens`), ", estimated as a token for 4 bytes."),
			share(servers), scroll);
	}

	#row(s) {
		const link = seen("", s.alias, "a");
		link.href = `#servers/${encodeURIComponent(s.alias)}`;
		const next = s.nextTry ? ` next try in ${ago(2 * this.#feed.now() - s.nextTry, this.#feed.now())}` : "";
		const row = node("tr", "",
			node("td", "", link), node("td", "state", node("b", "", s.status), node("small", "", ` ${ago(s.since, this.#feed.now())}${next}`)),
			node("td", "num", number(s.calls)), node("td", s.failed ? "num bad" : "num", number(s.failed)),
			node("td", "num", s.calls ? took(s.p50) : "–"), node("td", "num", s.calls ? took(s.p95) : "–"), node("td", "", spark(s.slowest)),
			node("td", "num", `${s.running}${s.queued ? ` + ${s.queued} wait` : ""}`), node("td", s.restarts > 3 ? "num bad" : "num", number(s.restarts)),
			node("td", "num", number(s.tools), s.held ? node("small", "warn", ` ${s.held} held`) : ""), node("td", "num", s.tokens ? number(s.tokens) : "–"));
		row.dataset.status = s.status;
		row.setAttribute("aria-selected", s.alias === this.#selected);
		row.onclick = () => { location.hash = link.hash; };
		return row;
	}
}

/** Returns a bar with the shares of the tokens. The table has the numbers. */
function share(servers) {
	const bar = node("p", "share");
	bar.setAttribute("aria-hidden", "true");
	for (const s of servers.filter(({ tokens }) => tokens)) {
		const part = seen("", s.alias);
		part.style.flexGrow = s.tokens;
		bar.append(part);
	}
	return bar;
}

/** Returns columns with the slowest call of each 25 seconds. */
function spark(values) {
	const svg = document.createElementNS(SVG, "svg");
	svg.setAttribute("viewBox", "0 0 60 18");
	svg.setAttribute("class", "spark");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", values.some(Boolean) ? `the slowest of each 25 seconds: ${values.map(took).join(", ")}` : "no calls");
	const most = Math.max(1, ...values);
	for (const [i, value] of values.entries()) {
		const rect = document.createElementNS(SVG, "rect");
		const height = Math.max(1, (value / most) * 17);
		for (const [name, v] of Object.entries({ x: i * 5, y: 18 - height, width: 4, height })) rect.setAttribute(name, v);
		svg.append(rect);
	}
	return svg;
}

export class ServerDetail {
	element = node("section", "pane detail");
	#feed;
	#alias;
	#shown;
	#open; // the entry that is shown

	constructor(feed) {
		this.#feed = feed;
		this.element.setAttribute("aria-label", "The selected server");
		this.select(undefined);
	}

	async select(alias) {
		if (alias !== this.#alias) this.#open = undefined;
		this.#alias = alias;
		this.#shown = undefined;
		this.#draw();
		if (alias === undefined || !this.#feed.may("server")) return;
		try {
			const shown = await this.#feed.ask({ do: "server", alias });
			if (alias !== this.#alias) return;
			this.#shown = shown;
			this.#draw();
		} catch (error) {
			this.#say(error.message);
		}
	}

	#say(text) {
		this.element.querySelector(".say").textContent = text;
	}

	async #act(action, question, explanation, yes) {
		if (!(await confirmed(question, explanation, yes))) return;
		try {
			await this.#feed.ask({ do: action, alias: this.#alias });
			this.#say("Done.");
		} catch (error) {
			this.#say(error.message);
		}
	}

	#draw() {
		const back = node("a", "back", "← Servers");
		back.href = "#servers";
		const server = this.#shown?.server ?? this.#feed.servers.find(({ alias }) => alias === this.#alias);
		const say = node("p", "say");
		say.setAttribute("role", "status");
		if (!server) {
			this.element.replaceChildren(back, node("p", "empty", this.#alias === undefined ? "Select a server." : "There is no such server."), say);
			return;
		}
		const state = node("b", "state", server.status);
		state.dataset.outcome = server.status;
		const acts = node("div", "acts");
		if (this.#feed.may("restart")) acts.append(button("Restart…", () => this.#act("restart", `Restart ${server.alias}?`, "Calls in flight fail. Others wait for the new session.", "Restart")));
		if (this.#feed.may("refresh")) acts.append(button("Read lists again…", () => this.#act("refresh", `Read the lists of ${server.alias} again?`, "What has changed is offered to clients.", "Read")));
		this.element.replaceChildren(
			back, node("header", "", seen("", server.alias, "h2"), state),
			node("p", "quiet", `since ${clock(server.since)}${server.version ? ` · ${server.version}` : ""} · ${server.sessions} more sessions`),
			this.#shown?.launch ? seen("launch", this.#shown.launch, "p") : "", this.#shown?.reason ? seen("error", this.#shown.reason, "p") : "", acts, say, ...this.#lists());
	}

	#lists() {
		if (!this.#shown) return this.#feed.may("server") ? [] : [node("p", "quiet", "This link shows names, times, outcomes and rules.")];
		const { lists, notOffered } = this.#shown;
		const parts = [node("h3", "", "Offered"), node("ul", "entries", ...lists.map((entry) => this.#entry(entry)))];
		if (notOffered.length > 0) parts.push(node("h3", "", "Not offered"), node("ul", "", ...notOffered.map((text) => seen("", text, "li"))));
		return parts;
	}

	#entry(entry) {
		const key = `${entry.kind} ${entry.exposed}`;
		const open = this.#open === key;
		const head = button("", () => { this.#open = open ? undefined : key; this.#draw(); }, { className: "entry" });
		head.append(seen("n", entry.name), node("span", entry.state === "offered" ? "quiet" : "warn", entry.state === "offered" ? entry.effect ?? entry.kind : entry.state), node("span", "quiet num", `${number(entry.tokens)} tokens`));
		head.setAttribute("aria-expanded", open);
		const item = node("li", "", head);
		if (open) item.append(this.#definition(entry));
		return item;
	}

	async #accept(entry) {
		if (!(await confirmed(`Accept ${entry.exposed}?`, `Clients get it as it is shown here: ${entry.digest}`, "Accept"))) return;
		try {
			await this.#feed.ask({ do: "accept", kind: entry.pinKind, exposed: entry.exposed, digest: entry.digest });
			await this.select(this.#alias);
		} catch (error) {
			this.#say(error.message);
		}
	}

	#definition(entry) {
		const parts = [entry.title ? seen("title", entry.title, "p") : "", entry.description ? seen("quiet", entry.description, "p") : "", seen("quiet", entry.exposed, "p")];
		for (const { member, before, after } of entry.differences ?? []) parts.push(seen("", member, "h3"), seen("old", before || "absent", "p"), seen("new", after || "absent", "p"));
		const box = node("div", "definition", ...parts);
		if (entry.state !== "offered" && entry.digest && this.#feed.may("accept")) box.append(node("div", "acts", button("Accept this definition…", () => this.#accept(entry))));
		if (entry.kind === "tool" && this.#feed.may("try")) box.append(new TryForm(this.#feed, entry).element);
		return box;
	}
}
