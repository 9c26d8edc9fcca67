// The list of waiting requests, oldest first. Only the person selects a card. If the request of
// the selected card ends, the card stays until it loses the focus, so that input for it cannot
// reach another card.

import { Card } from "./card.js";
import { byAnother, duration } from "./facts.js";
import { acceptance, rejection } from "./frame.js";
import { OUTCOMES } from "./history.js";

// How long the page waits after a reconnection until the server has sent the waiting requests
// again: for the first one, and for the others.
const FIRST_RESENT = 10_000;
const ALL_RESENT = 2_000;

// An answer within this time before the connection ended may not have arrived.
const IN_DOUBT = 2_000;

// The outcome for each decision of another approver.
const OF_ANOTHER = { approved: "approved", rejected: "declined", failed: "failed" };

const nameOf = ({ server, tool }) => (server ? `${server}.${tool}` : tool);

export class RequestList {
	#list;
	#cards = new Map(); // the waiting ones, by request id
	#ended = new Set(); // the selected one, if its request has ended
	#cardsOf = new WeakMap(); // all, by element
	#history;
	#send;
	#counted;
	#notifier;
	#sweeping; // a timer
	#views = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) this.#cardOf(target).inView = isIntersecting;
	});

	#ends = new IntersectionObserver((entries) => {
		for (const { target, isIntersecting } of entries) {
			if (isIntersecting && !document.hidden) this.#cardOf(target.closest(".pending > li"))?.sawEnd();
		}
	});

	/** send(frame) returns whether it was sent; counted(count, news) is called when the count changes. */
	constructor(list, history, send, counted, notifier) {
		this.#notifier = notifier;
		this.#list = list;
		this.#history = history;
		this.#send = send;
		this.#counted = counted;
		document.addEventListener("visibilitychange", () => this.moved());
		setInterval(() => this.#tick(), 250);
	}

	received({ method, params }) {
		switch (method) {
			case "approve":
				return this.#offered(params);
			case "withdrawn":
				return this.#withdrawn(params);
			case "refused":
				this.#refused(params);
		}
	}

	connected() {
		this.#sweepIn(FIRST_RESENT);
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

	/** Refuses answers for a moment, because all cards have moved or were hidden. */
	moved() {
		this.#rearm(this.#list.children);
	}

	/** The selected card, if any. */
	get selected() {
		const node = document.activeElement?.closest(".pending > li");
		return node && this.#cardOf(node);
	}

	/** Selects the next or the previous card; without a selection the first or the last. */
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
		if (this.#sweeping) this.#sweepIn(ALL_RESENT);
		const known = this.#cards.get(request.id);
		if (known?.request.frame === request.frame) {
			known.offered = true;
			known.say("");
			return;
		}
		if (known) this.#end(known, "lost", "The server sent another request with the same id.");
		const again = this.#history.correct(request.id, "lost", "The answer did not arrive. It is asked again.");
		const card = new Card(request, (...decision) => this.#decide(...decision));
		if (again) card.say("Your answer did not arrive. Decide again.");
		this.#cards.set(request.id, card);
		this.#cardsOf.set(card.element, card);
		this.#list.append(card.element); // at the end, so that no other card moves
		this.#views.observe(card.element);
		this.#ends.observe(card.endMark);
		this.#count(`New request: ${nameOf(request)}`);
		this.#notifier.announce(request, this.#cards.size);
	}

	#withdrawn(end) {
		const card = this.#cards.get(end.id);
		if (!card) this.#endedBefore(end);
		else if (end.decision) this.#end(card, OF_ANOTHER[end.decision] ?? "failed", byAnother(end));
		else if (card.tick()) this.#end(card, "withdrawn", "The call no longer waits for an answer.");
		else this.#expired(card);
	}

	/** Handles a decision of another approver that arrives after the end of the card. */
	#endedBefore(end) {
		if (!end.decision) return;
		switch (this.#history.outcomeOf(end.id)) {
			case "accepted":
			case "rejected": // this page was too late
				this.#history.correct(end.id, "refused", byAnother(end));
				break;
			case "withdrawn":
				this.#history.correct(end.id, OF_ANOTHER[end.decision] ?? "failed", byAnother(end));
		}
	}

	/** Handles the notification that the server has ignored an answer. */
	#refused(end) {
		const known = this.#history.outcomeOf(end.id) === "refused"; // with the decision that counts
		if (end.decision) this.#history.correct(end.id, "refused", byAnother(end));
		else if (!known) this.#history.correct(end.id, "refused", end.reason);
	}

	#expired(card) {
		this.#end(card, "expired", "There was no answer in time.");
	}

	#decide(card, approved, reason, remember) {
		const frame = approved ? acceptance(card.request, remember) : rejection(card.request, reason);
		if (!this.#send(frame)) return;
		if (card.isSelected) document.getElementById("waiting").focus();
		this.#end(card, approved ? "accepted" : "rejected", remember > 0 ? `Also equal calls for ${duration(remember)}.` : reason);
	}

	#end(card, outcome, why) {
		this.#cards.delete(card.request.id);
		this.#history.add(card.request, outcome, why);
		card.end(`${OUTCOMES[outcome]}. ${why}`);
		if (card.isSelected) this.#ended.add(card);
		else this.#remove(card);
		this.#count(`${OUTCOMES[outcome]}: ${nameOf(card.request)}`);
		if (this.#cards.size === 0) this.#notifier.clear();
	}

	#remove(card) {
		const nodes = [...this.#list.children];
		const moved = nodes.slice(nodes.indexOf(card.element) + 1);
		this.#views.unobserve(card.element);
		this.#ends.unobserve(card.endMark);
		this.#ended.delete(card);
		card.element.remove();
		this.#rearm(moved);
	}

	#rearm(nodes) {
		for (const node of nodes) this.#cardOf(node).rearm();
	}

	#tick() {
		for (const card of this.#cards.values()) {
			if (!card.tick()) this.#expired(card);
			else card.measure();
		}
		for (const card of this.#ended) {
			if (!card.isSelected) this.#remove(card);
		}
	}

	/** Ends, after a while, the requests that the server has not sent again. */
	#sweepIn(milliseconds) {
		clearTimeout(this.#sweeping);
		this.#sweeping = setTimeout(() => {
			this.#sweeping = undefined;
			for (const card of this.#cards.values()) {
				if (!card.offered) this.#end(card, "lost", "The server no longer has the request.");
			}
		}, milliseconds);
	}

	#count(news) {
		this.#counted(this.#cards.size, news);
	}
}
