// The list of calls. Rows are changed one at a time, and at most 250 are in the page.

import { button, clock, node, number, seen, took, untilNow } from "./nodes.js";
import { replaceChanged } from "./parts.js";

const MAX_ROWS = 250; // each costs time whenever one of them changes
const SLICE = 40; // rows that are made at a time, so that no task takes long
const MANY = 100; // changed calls for which all rows are made again
const SLOW = 1_000_000; // microseconds

const FAILED = new Set(["tool error", "no login", "failed", "lost", "expired", "refused", "unknown"]);
const FILTERS = {
	All: () => true,
	Now: (call) => !call.ended,
	Failed: (call) => FAILED.has(call.outcome),
	Denied: (call) => call.outcome === "denied" || call.outcome === "rejected",
	Slow: (call) => call.served > SLOW,
};

const HEADS = [["Time", "time"], ["Outcome", "outcome"], ["Name", "what"], ["Took", "took"], ["Person · server", "bars"], ["Rule", "rule"], ["Caller", "caller"]];

export class CallList {
	element;
	#feed;
	#rows = new Map(); // by id: the row, and the call that it shows
	#now = node("tbody", "");
	#ended = node("tbody", "");
	#chips;
	#search = node("input", "search");
	#strip = node("p", "strip");
	#empty = node("p", "empty", "No call has been made.");
	#pause;
	#paused = false;
	#filter = "All";
	#selected;
	#drawing = 0;
	#scroll;
	#place; // the call whose row is to be at the same place again

	constructor(feed) {
		this.#feed = feed;
		this.#search.type = "search";
		this.#search.placeholder = "Filter: server, name, caller, rule, outcome";
		this.#search.setAttribute("aria-label", "Filter calls");
		this.#search.oninput = () => this.draw();
		this.#chips = node("div", "chips", ...Object.keys(FILTERS).map((name) => this.#chip(name)));
		this.#pause = button("Pause", () => this.pause(), { key: "p" });
		this.#pause.setAttribute("aria-pressed", "false");
		const head = node("tr", "", ...HEADS.map(([text, name]) => {
			const th = node("th", name, text);
			th.scope = "col";
			if (name === "bars") th.title = "The lengths grow with the logarithm of the time";
			return th;
		}));
		const table = node("table", "calls", node("caption", "visually-hidden", "Calls, newest first"), node("thead", "", head), this.#now, this.#ended);
		const scroll = node("div", "scroll", table, this.#empty);
		scroll.tabIndex = 0;
		scroll.setAttribute("role", "group");
		scroll.setAttribute("aria-label", "Calls");
		this.#scroll = scroll;
		this.element = node("section", "pane list", node("div", "tools", this.#search, this.#chips, this.#pause), this.#strip, scroll);
		this.element.setAttribute("aria-label", "Calls");
	}

	focusFilter() {
		this.#search.focus();
	}

	pause() {
		this.#paused = !this.#paused;
		this.#pause.setAttribute("aria-pressed", this.#paused);
		this.#pause.firstChild.data = this.#paused ? "Go on" : "Pause";
		if (!this.#paused) this.draw();
	}

	select(id) {
		this.#selected = id;
		for (const [other, { row }] of this.#rows) row.setAttribute("aria-selected", other === id);
	}

	/** Returns the id of the row by a number of rows below the selected one. */
	next(by) {
		const ids = [...this.element.querySelectorAll("tbody tr[data-id]")].map((row) => Number(row.dataset.id));
		const at = ids.indexOf(this.#selected);
		return ids[at < 0 ? 0 : Math.max(0, Math.min(ids.length - 1, at + by))];
	}

	/** Shows calls that have changed. */
	changed(ids) {
		this.#count();
		if (this.#paused) return;
		if (ids.length > MANY) {
			this.draw();
			return;
		}
		for (const id of ids.sort((a, b) => a - b)) this.#put(this.#feed.calls.get(id));
		this.#limit();
		this.#restore();
	}

	/** Removes all rows. Those that follow are at the same place as before, if they are of the same calls. */
	reset() {
		const from = this.#scroll.scrollTop;
		const row = from > 0 && [...this.element.querySelectorAll("tbody tr[data-id]")].find(({ offsetTop, offsetHeight }) => offsetTop + offsetHeight > from);
		if (row) this.#place = { id: Number(row.dataset.id), at: row.dataset.at, offset: row.offsetTop - from };
		this.draw();
	}

	#restore() {
		const row = this.#place && this.#rows.get(this.#place.id)?.row;
		if (!row || row.dataset.at !== this.#place.at) return; // it may be a call of another process
		this.#scroll.scrollTop = row.offsetTop - this.#place.offset;
		this.#place = undefined;
	}

	/** Makes all rows again, in slices. */
	async draw() {
		const drawing = ++this.#drawing;
		this.#count();
		const shown = this.#matching().slice(0, MAX_ROWS);
		this.#rows.clear();
		this.#now.replaceChildren();
		this.#ended.replaceChildren();
		for (let from = 0; from < shown.length; from += SLICE) {
			for (const call of shown.slice(from, from + SLICE)) this.#put(call, true);
			await new Promise((resolve) => setTimeout(resolve));
			if (drawing !== this.#drawing) return;
		}
		this.#restore();
	}

	/** Updates the times of calls that go on. */
	tick() {
		if (this.#paused) return;
		for (const [id, { row }] of this.#rows) {
			const call = this.#feed.calls.get(id);
			if (!call || call.ended) continue;
			const grown = untilNow(call, this.#feed.now());
			row.querySelector(".took").textContent = took(grown.took);
			row.querySelector(".bars").replaceChildren(bar(grown));
		}
	}

	#matching() {
		const found = [];
		for (const call of this.#feed.calls.values()) if (this.#matches(call)) found.push(call);
		return found.sort((a, b) => b.id - a.id);
	}

	#matches(call) {
		if (!FILTERS[this.#filter](call)) return false;
		const text = this.#search.value.trim().toLowerCase();
		return !text || `${call.exposed} ${call.server}.${call.name} ${call.outcome} ${call.caller} ${call.client} ${call.rule ?? ""}`.toLowerCase().includes(text);
	}

	#chip(name) {
		const chip = button(name, () => {
			this.#filter = name;
			for (const other of this.#chips.children) other.setAttribute("aria-pressed", other === chip);
			this.draw();
		}, { className: "chip" });
		chip.append(node("span", "n"));
		chip.setAttribute("aria-pressed", name === "All");
		return chip;
	}

	/** Shows how many calls there are. */
	#count() {
		const calls = [...this.#feed.calls.values()];
		for (const [i, filter] of Object.values(FILTERS).entries()) this.#chips.children[i].querySelector(".n").textContent = number(calls.filter(filter).length);
		this.#empty.hidden = calls.length > 0;
		const recent = calls.filter((call) => call.at > this.#feed.now() - 300e6);
		const kept = this.#feed.kept;
		const callers = new Set(calls.map((call) => `${call.by ?? call.caller} ${call.client}`));
		this.element.classList.toggle("one-caller", callers.size === 1);
		this.#strip.replaceChildren(
			"Last 5 min: ", node("b", "", `${number(recent.length)} calls`), " · ", node("b", "", `${number(recent.filter(FILTERS.Failed).length)} failed`),
			" · ", node("b", "", `${number(recent.filter(FILTERS.Denied).length)} denied`),
			kept ? ` · kept: ${number(kept.calls)} calls, ${(kept.bytes / (1 << 20)).toFixed(1)} of ${kept.limit >> 20} MiB` : "",
			...(callers.size === 1 ? [" · all by ", seen("", [...callers][0])] : []),
			calls.length > MAX_ROWS && calls.filter((call) => this.#matches(call)).length > MAX_ROWS ? ` · the newest ${MAX_ROWS} are shown` : "",
		);
	}

	/** Shows a call in its row. last says that it is older than the other rows. */
	#put(call, last = false) {
		const old = this.#rows.get(call.id);
		if (!this.#matches(call)) {
			old?.row.remove();
			this.#rows.delete(call.id);
			return;
		}
		const row = old?.row ?? node("tr", "");
		const group = call.ended ? this.#ended : this.#now;
		this.#show(call, row);
		this.#rows.set(call.id, { row });
		if (row.parentNode === group) return;
		const focused = row.contains(document.activeElement) && document.activeElement;
		this.#insert(group, row, call.id, last);
		if (focused) focused.focus({ preventScroll: true });
	}

	#insert(group, row, id, last) {
		if (last) {
			group.append(row);
			return;
		}
		let before = group.firstElementChild;
		while (before && Number(before.dataset.id) > id) before = before.nextElementSibling;
		group.insertBefore(row, before);
	}

	#limit() {
		while (this.#rows.size > MAX_ROWS) {
			const oldest = this.#ended.lastElementChild ?? this.#now.lastElementChild;
			this.#rows.delete(Number(oldest.dataset.id));
			oldest.remove();
		}
	}

	/** Shows a call in a row, and keeps the cells that have not changed. */
	#show(call, row) {
		const link = node("a", "", call.server ? seen("server", `${call.server}.`) : "", seen("", call.name));
		link.href = `#calls/${call.id}`;
		const progress = call.progress && !call.ended ? node("small", "", ` ${call.progress}${call.total ? ` of ${call.total}` : ""}`) : "";
		const cells = node("tr", "",
			node("td", "time", clock(call.at)), node("td", "outcome", node("b", "", call.outcome)), node("td", "what", link, progress),
			node("td", "took", took(call.took)), node("td", "bars", bar(call)), seen("rule", call.rule ?? "", "td"),
			node("td", "caller", seen("", call.by ?? call.caller), " ", seen("", call.client, "small")));
		if (row.firstChild) replaceChanged(row, cells);
		else row.append(...cells.children);
		row.dataset.id = call.id;
		row.dataset.at = call.at;
		row.dataset.outcome = call.outcome;
		row.setAttribute("aria-selected", call.id === this.#selected);
		row.onclick = () => { location.hash = link.hash; };
	}
}

/** Returns a bar of the time of a person and of the server. */
function bar(call) {
	const phases = node("span", "phases");
	for (const [name, us] of [["person", call.person], ["queued", call.queued], ["served", call.served]]) {
		if (us < 1) continue;
		const part = node("i", name);
		part.style.width = `${Math.max(2, Math.min(100, 14 * Math.log10(1 + us / 1000)))}%`;
		phases.append(part);
	}
	return phases;
}
