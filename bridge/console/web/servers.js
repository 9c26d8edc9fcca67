// The servers of the bridge.

import { happened } from "./events.js";
import { ago, node, number, seen, took } from "./nodes.js";
import { Parts } from "./parts.js";

const SVG = "http://www.w3.org/2000/svg";
const HEADS = ["Server", "State", "Calls", "Failed", "p50", "p95", "Slowest", "Running", "Restarts", "Tools", "≈ Tokens"];

export class ServerList {
	element = node("section", "pane list");
	#parts = new Parts(this.element);
	#body = node("tbody", "");
	#rows = new Parts(this.#body);
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
			this.#parts.show([["empty", "", () => node("p", "empty", "There is no server behind this one.")], ...happened(this.#feed.events)]);
			return;
		}
		const tokens = servers.reduce((sum, s) => sum + s.tokens, 0);
		const now = this.#feed.now();
		this.#rows.show(servers.map((s) => [s.alias, [s, s.alias === this.#selected, ago(s.since, now), s.nextTry && [s.nextTry > now, ago(now, s.nextTry)]], () => this.#row(s, now)]));
		this.#parts.show([
			["strip", tokens, () => node("p", "strip", "Numbers of the last 5 minutes. A list of all tools costs a model about ", node("b", "", `${number(tokens)} tokens`), ", estimated as a token for 4 bytes.")],
			["share", servers.map((s) => [s.alias, s.tokens]), () => share(servers)], ["table", "", () => this.#table()], ...happened(this.#feed.events),
		]);
	}

	#table() {
		const head = node("tr", "", ...HEADS.map((text, i) => {
			const th = node("th", i > 1 && i !== 6 ? "num" : "", text);
			th.scope = "col";
			return th;
		}));
		const table = node("table", "servers", node("caption", "visually-hidden", "Servers, numbers of the last 5 minutes"), node("thead", "", head), this.#body);
		const scroll = node("div", "scroll", table);
		scroll.tabIndex = 0;
		scroll.setAttribute("role", "group");
		scroll.setAttribute("aria-label", "Servers");
		return scroll;
	}

	#row(s, now) {
		const link = seen("", s.alias, "a");
		link.href = `#servers/${encodeURIComponent(s.alias)}`;
		const next = !s.nextTry ? "" : s.nextTry > now ? ` next try in ${ago(now, s.nextTry)}` : " is tried again now";
		const row = node("tr", "",
			node("td", "", link), node("td", "state", node("b", "", s.status), node("small", "", ` ${ago(s.since, now)}${next}`)),
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
