// The requests that wait, the oldest first, and what becomes of them. Only the person selects
// a card. A selected one whose request ends stays where it is until the person leaves it, so
// that what is typed for it cannot reach another.

import { Card } from "./card.js";
import { acceptance, rejection } from "./frame.js";
import { OUTCOMES } from "./history.js";

// How long after connecting requests that wait are brought again: before the first has come,
// when the server may still wait for another connection to go, and after it.
const BROUGHT_AT_LAST = 10_000;
const BROUGHT_TOGETHER = 2_000;

// An answer that was given so shortly before the connection broke may not have arrived.
const IN_DOUBT = 2_000;

export class Desk {
	#list;
	#cards = new Map(); // those that wait, by their requests' ids
	#left = new Set(); // those that have ended, and are still selected
	#cardsOf = new WeakMap(); // all, by their elements
	#history;
	#send;
	#counted;
	#sweeping; // a timer
	#views = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) this.#cardOf(target).inView = isIntersecting;
	});

	#ends = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) {
			if (isIntersecting && !document.hidden) this.#cardOf(target.closest(".pending > li"))?.sawEnd();
		}
	});

	/** send(frame) tells whether it could; counted(count, news) is called when the count changes. */
	constructor(list, history, send, counted) {
		this.#list = list;
		this.#history = history;
		this.#send = send;
		this.#counted = counted;
		document.addEventListener("visibilitychange", () => this.#stir(this.#list.children));
		setInterval(() => this.#tick(), 250);
	}

	received({ method, params }) {
		switch (method) {
			case "approve":
				return this.#offered(params);
			case "withdrawn":
				return this.#withdrawn(params.id);
			case "refused":
				this.#history.correct(params.id, "refused", params.reason);
		}
	}

	connected() {
		this.#sweepIn(BROUGHT_AT_LAST);
	}

	disconnected() {
		clearTimeout(this.#sweeping);
		for (const card of this.#cards.values()) {
			card.offered = false;
			card.say("Not connected: it cannot be answered now.");
		}
		for (const id of this.#history.answeredWithin(IN_DOUBT)) {
			this.#history.correct(id, "lost", "The connection broke: the answer may not have arrived.");
		}
	}

	/** The card that the person has selected, if any. */
	get selected() {
		const node = document.activeElement?.closest(".pending > li");
		return node && this.#cardOf(node);
	}

	/** Selects the next card or the one before; without a selection the first or the last. */
	move(step) {
		const nodes = [...this.#list.children];
		const at = nodes.findIndex((node) => node.contains(document.activeElement));
		const to = at < 0 ? (step > 0 ? 0 : nodes.length - 1) : at + step;
		if (nodes[to]) this.#cardOf(nodes[to]).select();
	}

	#cardOf(node) {
		return this.#cardsOf.get(node);
	}

	#offered(request) {
		if (this.#sweeping) this.#sweepIn(BROUGHT_TOGETHER);
		const known = this.#cards.get(request.id);
		if (known?.request.frame === request.frame) {
			known.offered = true;
			known.say("");
			return;
		}
		if (known) this.#end(known, "lost", "The server asks something else under the same id.");
		const again = this.#history.correct(request.id, "lost", "The answer did not arrive. It is asked again.");
		const card = new Card(request, (...decision) => this.#decide(...decision));
		if (again) card.say("Your answer did not arrive. Decide again.");
		this.#cards.set(request.id, card);
		this.#cardsOf.set(card.element, card);
		this.#list.append(card.element); // below all others, which stay where they are
		this.#views.observe(card.element);
		this.#ends.observe(card.endMark);
		this.#count(`New request: ${request.server}.${request.tool}`);
	}

	#withdrawn(id) {
		const card = this.#cards.get(id);
		if (!card) return;
		if (card.tick()) this.#end(card, "withdrawn", "Nobody waits for an answer any more.");
		else this.#expired(card);
	}

	#expired(card) {
		this.#end(card, "expired", "Nobody answered in time.");
	}

	#decide(card, approved, reason) {
		const frame = approved ? acceptance(card.request) : rejection(card.request, reason);
		if (!this.#send(frame)) return;
		if (card.isSelected) document.getElementById("waiting").focus();
		this.#end(card, approved ? "accepted" : "rejected", reason);
	}

	#end(card, outcome, why) {
		this.#cards.delete(card.request.id);
		this.#history.add(card.request, outcome, why);
		card.end(`${OUTCOMES[outcome]}. ${why}`);
		if (card.isSelected) this.#left.add(card);
		else this.#remove(card);
		this.#count(`${OUTCOMES[outcome]}: ${card.request.server}.${card.request.tool}`);
	}

	#remove(card) {
		const nodes = [...this.#list.children];
		const moved = nodes.slice(nodes.indexOf(card.element) + 1);
		this.#views.unobserve(card.element);
		this.#ends.unobserve(card.endMark);
		this.#left.delete(card);
		card.element.remove();
		this.#stir(moved);
	}

	#stir(nodes) {
		for (const node of nodes) this.#cardOf(node).stir();
	}

	#tick() {
		for (const card of this.#cards.values()) {
			if (!card.tick()) this.#expired(card);
			else card.measure();
		}
		for (const card of this.#left) {
			if (!card.isSelected) this.#remove(card);
		}
	}

	/** Gives up, after a while, the requests that the new connection has not brought again. */
	#sweepIn(milliseconds) {
		clearTimeout(this.#sweeping);
		this.#sweeping = setTimeout(() => {
			this.#sweeping = undefined;
			for (const card of this.#cards.values()) {
				if (!card.offered) this.#end(card, "lost", "The server does not ask about it any more.");
			}
		}, milliseconds);
	}

	#count(news) {
		this.#counted(this.#cards.size, news);
	}
}
