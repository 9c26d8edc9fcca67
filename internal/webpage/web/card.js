// The view of a waiting request.

import { layOut } from "./arguments.js";
import { now } from "./clock.js";
import { element, fromTemplate, timeOfDay } from "./element.js";
import { choices, duration, effectOf, splitLaunch } from "./facts.js";
import { matchesDigest } from "./frame.js";
import { show, showLines } from "./visible.js";

// The time in milliseconds during which a card must be visible and unmoved before it accepts an
// answer. An earlier click or key was meant for something else.
const ARMED_AFTER = 500;

const URGENT = 30_000;

// A request with more time, a year in milliseconds, has no limit.
const UNLIMITED = 365 * 24 * 3_600_000;

export class Card {
	element = fromTemplate("card");
	request;
	endMark; // at the end of the arguments
	#offered = true; // on the current connection
	#inView = false;
	#ended = false;
	#armed = false;
	#arming; // a timer
	#bytes; // of the arguments
	#read = false; // the end of the arguments has been visible
	#furthest = 0; // the visible part of the arguments, in pixels
	#matches = null; // result of matchesDigest; null until there is one

	/** decide(card, approved, reason, remember) is called when the person has decided. */
	constructor(request, decide) {
		this.request = request;
		this.#fill();
		this.#check();
		this.#part(".accept").onclick = () => this.canAccept && decide(this, true, "", this.#remembered);
		this.#part("form").onsubmit = (event) => {
			event.preventDefault();
			if (this.#armed) decide(this, false, this.#reason.value.trim(), 0);
		};
		this.#part(".copy").onclick = () => this.#copy();
		this.tick();
		this.#update();
	}

	get canAccept() {
		return this.#armed && this.#read && (this.#matches === true || this.#matches === undefined);
	}

	accept() {
		this.#part(".accept").click();
	}

	/** Moves the focus to the reason; Enter rejects. */
	startRejecting() {
		this.#reason.focus();
	}

	select() {
		this.#part(".card").focus();
	}

	get isSelected() {
		return this.element.contains(document.activeElement);
	}

	/** Sets whether the current connection has the request. */
	set offered(offered) {
		this.#offered = offered;
		this.rearm();
	}

	get offered() {
		return this.#offered;
	}

	set inView(inView) {
		this.#inView = inView;
		this.rearm();
	}

	/** Records that the end of the arguments has been visible. */
	sawEnd() {
		if (this.#read) return;
		this.#read = true;
		this.rearm();
	}

	/** Shows how many lines of the arguments have been visible. */
	measure() {
		if (!this.element.checkVisibility()) return; // it has no size
		const pre = this.#part(".arguments");
		const extent = this.#part(".extent");
		const lineHeight = parseFloat(getComputedStyle(pre).lineHeight);
		const { top, bottom } = pre.getBoundingClientRect();
		const from = parseFloat(getComputedStyle(pre).paddingTop);
		this.#furthest = Math.max(this.#furthest, Math.min(bottom, innerHeight) - top + pre.scrollTop);
		const lines = Math.max(1, Math.round((this.endMark.offsetTop + this.endMark.offsetHeight - pre.offsetTop - from) / lineHeight));
		const shown = this.#read ? lines : Math.max(0, Math.min(lines - 1, Math.floor((this.#furthest - from) / lineHeight)));
		const text = `${shown} of ${lines} lines shown` + (this.#read ? "" : ": scroll to the end of the arguments to accept");
		if (extent.textContent !== text) extent.textContent = text;
		extent.dataset.state = this.#read ? "all" : "part";
	}

	/** Refuses answers for a moment, because the card has moved or changed. */
	rearm() {
		clearTimeout(this.#arming);
		this.#armed = false;
		if (this.#offered && this.#inView && !this.#ended && !document.hidden) {
			this.#arming = setTimeout(() => {
				this.#armed = true;
				this.#update();
			}, ARMED_AFTER);
		}
		this.#update();
	}

	/** Shows the remaining time, and returns whether there is any. */
	tick() {
		const { created, deadline } = this.request;
		const left = Math.max(0, deadline - now());
		const seconds = Math.ceil(left / 1000);
		this.#part(".left").textContent = left > UNLIMITED ? "no limit" : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
		this.#part(".card").classList.toggle("urgent", left < URGENT);
		this.#part("progress").value = Math.min(1, left / Math.max(1, deadline - created));
		return left > 0;
	}

	/** Ends the card: it accepts no answer any more. */
	end(outcome) {
		this.#ended = true;
		this.rearm();
		this.say(outcome);
	}

	say(note) {
		this.#part(".note").textContent = note;
	}

	#part(selector) {
		return this.element.querySelector(selector);
	}

	get #reason() {
		return this.#part("input");
	}

	/** The seconds for which equal calls are accepted too. */
	get #remembered() {
		return Number(this.#part("select").value);
	}

	/** Offers the times for which a yes may be remembered, if the operator allows any. */
	#fillChoices() {
		const select = this.#part("select");
		for (const seconds of choices(this.request.remember)) {
			const option = element("option", "", `this call, and equal calls for ${duration(seconds)}`);
			option.value = seconds;
			select.append(option);
		}
		this.#part(".remember").hidden = select.options.length === 1;
		select.onchange = () => {
			this.#part(".accept .what").textContent = this.#remembered ? `Accept for ${duration(this.#remembered)}` : "Accept";
			this.rearm();
		};
	}

	#fillFacts() {
		const { title, description, rule, reason } = this.request;
		show(this.#part(".title"), title).hidden = !title;
		showLines(this.#part(".about"), description).hidden = !description;
		const { effect, text, source } = effectOf(this.request);
		this.#part(".effect").dataset.effect = effect;
		this.#part(".effect strong").textContent = text;
		this.#part(".effect .source").textContent = source;
		this.#part(".why-asked").hidden = !rule && !reason;
		if (reason) show(this.#part(".policy-reason"), reason);
		else this.#part(".policy-reason").textContent = "The policy asks for every such call.";
		show(this.#part(".rule"), rule || "without a name");
		for (const part of [".server", ".dot"]) this.#part(part).hidden = !this.request.server;
	}

	#fill() {
		const { server, created } = this.request;
		const [launch, launchDigest] = splitLaunch(this.request.launch);
		const texts = {
			...this.request, asked: timeOfDay(created),
			source: server || "this program itself", launch: launch || (server ? "" : "part of this program"), launchDigest,
		};
		for (const node of this.element.querySelectorAll("[data-of]")) {
			const text = texts[node.dataset.of];
			show(node, text || "unknown").classList.toggle("unknown", !text);
			node.title = node.textContent; // in case the text is truncated
		}
		this.#fillFacts();
		this.#fillChoices();
		this.#part(".card").setAttribute("aria-label", server ? `${server}.${this.request.tool}` : this.request.tool);
		this.#part(".launch-digest").hidden = !launchDigest;
		this.#part(".script").hidden = !this.request.script;
		this.#part(".copy").hidden = !navigator.clipboard;
		this.endMark = element("span", "end", "");
		this.#part(".arguments").append(layOut(this.request.arguments), this.endMark);
		this.#part(".digest").textContent = this.request.digest;
	}

	async #check() {
		this.#bytes = new TextEncoder().encode(this.request.arguments);
		this.#matches = await matchesDigest(this.#bytes, this.request.digest);
		this.#update();
	}

	async #copy() {
		await navigator.clipboard.writeText(this.request.arguments);
		this.#part(".copy").textContent = "Copied";
	}

	#update() {
		const bytes = this.#bytes.length.toLocaleString("en");
		const [state, verdict] = {
			null: ["checking", `${bytes} bytes`],
			true: ["exact", `${bytes} bytes, exactly as the server has them`],
			false: ["wrong", `${bytes} bytes that differ from the bytes of the server: their SHA-256 differs`],
			undefined: ["unchecked", `${bytes} bytes, not checked: this browser checks digests at https: and localhost only`],
		}[this.#matches];
		this.#part(".proof").dataset.state = state;
		this.#part(".verdict").textContent = verdict;
		this.#part(".card").classList.toggle("ended", this.#ended);
		this.#part(".card").classList.toggle("adrift", !this.#offered);
		this.#part(".accept").setAttribute("aria-disabled", !this.canAccept);
		this.#part(".reject").setAttribute("aria-disabled", !this.#armed);
	}
}
