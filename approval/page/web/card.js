// A request that waits, as a person sees it.

import { layOut } from "./arguments.js";
import { now } from "./clock.js";
import { element, fromTemplate, timeOfDay } from "./element.js";
import { matchesDigest } from "./frame.js";
import { show } from "./visible.js";

// How many milliseconds a card stands still in view before it takes an answer. Whoever
// clicked or typed before that meant something else.
const ARMED_AFTER = 500;

const URGENT = 30_000;

export class Card {
	element = fromTemplate("card");
	request;
	endMark; // after the last of the arguments
	#offered = true; // by the connection that there is now
	#inView = false;
	#ended = false;
	#armed = false;
	#arming; // a timer
	#bytes; // of the arguments
	#read = false; // whether the end of the arguments was in view
	#furthest = 0; // how far they were in view, in pixels
	#matches = null; // whether the digest does; null while that is being found out

	/** decide(card, approved, reason) is called when the person has decided. */
	constructor(request, decide) {
		this.request = request;
		this.#fill();
		this.#check();
		this.#part(".accept").onclick = () => this.canAccept && decide(this, true, "");
		this.#part("form").onsubmit = (event) => {
			event.preventDefault();
			if (this.#armed) decide(this, false, this.#reason.value.trim());
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

	/** Lets the person type a reason; Enter rejects. */
	startRejecting() {
		this.#reason.focus();
	}

	select() {
		this.#part(".card").focus();
	}

	get isSelected() {
		return this.element.contains(document.activeElement);
	}

	/** Whether the server waits for the answer on the connection that there is now. */
	set offered(offered) {
		this.#offered = offered;
		this.stir();
	}

	get offered() {
		return this.#offered;
	}

	set inView(inView) {
		this.#inView = inView;
		this.stir();
	}

	/** The end of the arguments has come into view. */
	sawEnd() {
		if (this.#read) return;
		this.#read = true;
		this.stir();
	}

	/** Tells how many lines of the arguments have been in view. */
	measure() {
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

	/** The card has moved, or what it says has changed: it takes no answer for a moment. */
	stir() {
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

	/** Shows how much time is left, and tells whether there is any. */
	tick() {
		const { created, deadline } = this.request;
		const left = Math.max(0, deadline - now());
		const seconds = Math.ceil(left / 1000);
		this.#part(".left").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
		this.#part(".card").classList.toggle("urgent", left < URGENT);
		this.#part("progress").value = Math.min(1, left / Math.max(1, deadline - created));
		return left > 0;
	}

	/** Nobody waits for the answer any more. */
	end(outcome) {
		this.#ended = true;
		this.stir();
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

	#fill() {
		const texts = { ...this.request, asked: timeOfDay(this.request.created) };
		for (const node of this.element.querySelectorAll("[data-of]")) {
			const text = texts[node.dataset.of];
			show(node, text || "unknown").classList.toggle("unknown", !text);
			node.title = node.textContent; // where it is too long for its place
		}
		this.#part(".card").setAttribute("aria-label", `${this.request.server}.${this.request.tool}`);
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
			null: ["checking", `${bytes} bytes, SHA-256`],
			true: ["exact", `${bytes} bytes, exactly as the server has them: SHA-256`],
			false: ["wrong", `${bytes} bytes that are not what the server asks about. They do not have its SHA-256`],
			undefined: ["unchecked", `${bytes} bytes. This browser checks digests at https: and localhost only. SHA-256`],
		}[this.#matches];
		this.#part(".proof").dataset.state = state;
		this.#part(".verdict").textContent = verdict;
		this.#part(".card").classList.toggle("ended", this.#ended);
		this.#part(".card").classList.toggle("adrift", !this.#offered);
		this.#part(".accept").setAttribute("aria-disabled", !this.canAccept);
		this.#part(".reject").setAttribute("aria-disabled", !this.#armed);
	}
}
