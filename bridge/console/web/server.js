// The selected server.

import { confirmed } from "./confirm.js";
import { happened } from "./events.js";
import { TryForm } from "./form.js";
import { back, button, clock, node, number, seen } from "./nodes.js";
import { Parts } from "./parts.js";
import { showLines } from "./visible.js";

export class ServerDetail {
	element = node("section", "pane detail");
	#parts = new Parts(this.element);
	#say = node("p", "say");
	#list;
	#entries;
	#feed;
	#alias;
	#shown;
	#open; // the entry that is shown
	#known; // what was known of the server when its lists were read

	constructor(feed) {
		this.#feed = feed;
		this.element.setAttribute("aria-label", "The selected server");
		this.element.tabIndex = -1;
		this.#say.setAttribute("role", "status");
		this.select(undefined);
	}

	select(alias) {
		if (alias !== this.#alias || !this.#list) {
			this.#alias = alias;
			this.#shown = this.#open = undefined;
			this.#list = node("ul", "entries");
			this.#entries = new Parts(this.#list);
			this.#say.textContent = "";
			if (this.element.contains(document.activeElement)) this.element.focus(); // what has the focus disappears
			this.#parts.show([]);
			this.element.scrollTop = 0;
		}
		this.#draw();
		this.#read();
	}

	/** Shows what has changed, and reads the lists again if they may have. */
	changed() {
		if (this.#alias === undefined) return;
		this.#draw();
		if (this.#known !== this.#state()) this.#read();
	}

	get #server() {
		return this.#feed.servers.find(({ alias }) => alias === this.#alias);
	}

	#state() {
		const { status, since, tools, prompts, resources, held } = this.#server ?? {};
		return JSON.stringify([status, since, tools, prompts, resources, held]);
	}

	async #read() {
		const alias = this.#alias;
		if (alias === undefined || !this.#feed.may("server")) return;
		this.#known = this.#state();
		try {
			const shown = await this.#feed.ask({ do: "server", alias });
			if (alias !== this.#alias) return;
			this.#shown = shown;
			if (!shown.login && this.#say.querySelector("a")) this.#say.textContent = ""; // its link has been used
			this.#draw();
		} catch (error) {
			this.#say.textContent = error.message;
		}
	}

	async #act(action, question, explanation, yes) {
		if (!(await confirmed(question, explanation, yes))) return;
		try {
			await this.#feed.ask({ do: action, alias: this.#alias });
			this.#say.textContent = "Done.";
		} catch (error) {
			this.#say.textContent = error.message;
		}
	}

	#draw() {
		const server = this.#server ?? this.#shown?.server;
		if (!server) {
			const why = this.#alias === undefined ? "Select a server." : "There is no such server.";
			this.#parts.show([["back", "", () => back("Servers", "servers")], ["empty", why, () => node("p", "empty", why)], ["say", "", () => this.#say]]);
			return;
		}
		const { launch, reason, stderr, login } = this.#shown ?? {};
		const about = `since ${clock(server.since)}${server.version ? ` · ${server.version}` : ""} · ${server.sessions} more sessions`;
		const parts = [["back", "", () => back("Servers", "servers")], ["header", server.status, () => header(server)], ["about", about, () => node("p", "quiet", about)]];
		if (launch) parts.push(["launch", launch, () => seen("launch", launch, "p")]);
		if (reason) parts.push(["reason", reason, () => seen("error", reason, "p")]);
		parts.push(["acts", Boolean(login), () => this.#acts(server.alias, login)], ["say", "", () => this.#say], ...this.#lists(), ...happened(this.#feed.events, server.alias));
		if (stderr) parts.push(["stderr", stderr, () => standardError(stderr)]);
		this.#parts.show(parts);
	}

	#acts(alias, login) {
		const acts = node("div", "acts");
		if (login && this.#feed.may("login")) acts.append(button("Log in…", () => this.#logIn(alias), { className: "plain accept" }));
		if (this.#feed.may("restart")) acts.append(button("Restart…", () => this.#act("restart", `Restart ${alias}?`, "Calls in flight fail. Others wait for the new session.", "Restart")));
		if (this.#feed.may("refresh")) acts.append(button("Read lists again…", () => this.#act("refresh", `Read the lists of ${alias} again?`, "What has changed is offered to clients.", "Read")));
		return acts;
	}

	async #logIn(alias) {
		if (!(await confirmed(`Log in at ${alias}?`, "The next step is a link to the page of its authorization server, for a browser on the machine of this program. The token is used for all callers.", "Get the link"))) return;
		try {
			const { url } = await this.#feed.ask({ do: "login", alias });
			if (!/^https?:\/\//.test(url)) {
				this.#say.textContent = "Done.";
				return;
			}
			const link = seen("", `Log in at ${new URL(url).host}`, "a");
			Object.assign(link, { href: url, target: "_blank", rel: "noopener noreferrer" });
			this.#say.replaceChildren(link);
		} catch (error) {
			this.#say.textContent = error.message;
		}
	}

	#lists() {
		if (!this.#shown) return this.#feed.may("server") ? [] : [["viewer", "", () => node("p", "quiet", "This link shows names, times, outcomes and rules.")]];
		const { lists, notOffered } = this.#shown;
		this.#entries.show(lists.map((entry) => {
			const key = `${entry.kind} ${entry.exposed}`;
			return [key, [entry, key === this.#open], () => this.#entry(entry, key)];
		}));
		const fresh = this.#feed.may("accept") ? lists.filter(({ state, digest }) => state === "new" && digest) : [];
		const parts = [["offered", fresh, () => this.#heading(fresh)]];
		parts.push(lists.length > 0 ? ["entries", "", () => this.#list] : ["no entries", "", () => node("p", "quiet", "None is known.")]);
		if (notOffered.length > 0) parts.push(["not offered", notOffered, () => node("section", "", node("h3", "", "Not offered"), node("ul", "", ...notOffered.map((text) => seen("", text, "li"))))]);
		return parts;
	}

	#heading(fresh) {
		const right = node("span", "right");
		if (fresh.length > 1) right.append(button(`Accept all ${number(fresh.length)} new…`, () => this.#acceptAll(fresh)));
		return node("h3", "", "Lists", right);
	}

	/** Accepts entries as they are shown. Changed ones are accepted one at a time. */
	async #acceptAll(fresh) {
		if (!(await confirmed(`Accept ${number(fresh.length)} new definitions?`, `Clients get them as they are listed here: ${fresh.map(({ exposed }) => exposed).join(", ")}`, "Accept"))) return;
		try {
			for (const { pinKind, exposed, digest } of fresh) await this.#feed.ask({ do: "accept", kind: pinKind, exposed, digest });
			this.#say.textContent = "Done.";
		} catch (error) {
			this.#say.textContent = error.message;
		}
		this.#read();
	}

	#entry(entry, key) {
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
			this.#read();
		} catch (error) {
			this.#say.textContent = error.message;
		}
	}

	#definition(entry) {
		const parts = [entry.title ? seen("title", entry.title, "p") : "", entry.description ? seen("quiet", entry.description, "p") : "", seen("quiet", entry.exposed, "p")];
		for (const { member, before, after } of entry.differences ?? []) parts.push(seen("", member, "h3"), entry.state === "new" ? "" : seen("old", before || "absent", "p"), seen("new", after || "absent", "p"));
		if (entry.state !== "offered" && entry.digest) parts.push(seen("quiet", entry.digest, "p"));
		const box = node("div", "definition", ...parts);
		if (entry.state !== "offered" && entry.digest && this.#feed.may("accept")) box.append(node("div", "acts", button("Accept this definition…", () => this.#accept(entry))));
		if (entry.kind === "tool" && this.#feed.may("try")) box.append(new TryForm(this.#feed, entry).element);
		return box;
	}
}

function header(server) {
	const state = node("b", "state", server.status);
	state.dataset.outcome = server.status;
	return node("header", "", seen("", server.alias, "h2"), state);
}

function standardError(lines) {
	const text = showLines(node("pre", "stderr"), lines.trimEnd());
	text.tabIndex = 0;
	text.setAttribute("role", "group");
	text.setAttribute("aria-label", "Standard error");
	requestAnimationFrame(() => { text.scrollTop = text.scrollHeight; });
	return node("section", "", node("h3", "", "Standard error", node("small", "", " the last lines, without the secrets of the configuration")), text);
}
