// The outcomes of requests that this page has shown.

import { layOut } from "./arguments.js";
import { element, fromTemplate, timeOfDay } from "./element.js";
import { show } from "./visible.js";

const MAX_ENTRIES = 200;

/** The labels of outcomes. */
export const OUTCOMES = {
	accepted: "Accepted",
	rejected: "Rejected",
	approved: "Accepted", // by another approver, as the two below
	declined: "Rejected",
	failed: "Failed",
	expired: "Expired",
	withdrawn: "Withdrawn",
	refused: "Not counted",
	lost: "Lost",
};

export class History {
	#list;
	#entries = new Map(); // by request id, oldest first

	constructor(list) {
		this.#list = list;
	}

	/** Adds an outcome at the top, and removes an earlier one of the same request. */
	add(request, outcome, why = "") {
		this.#remove(request.id);
		const node = fromTemplate("decision");
		this.#entries.set(request.id, { request, outcome, node, at: Date.now() });
		show(show(node.querySelector(".what"), request.server ? `${request.server}.` : ""), request.tool);
		node.querySelector("time").textContent = timeOfDay(new Date());
		this.#describe(node, outcome, why);
		const pre = node.querySelector(".arguments");
		node.querySelector("details").ontoggle = () => pre.replaceChildren(layOut(request.arguments));
		this.#list.prepend(node);
		if (this.#entries.size > MAX_ENTRIES) this.#remove(this.#entries.keys().next().value);
	}

	/** Changes the outcome of a request. Returns false if the request is not in the list. */
	correct(id, outcome, why) {
		const entry = this.#entries.get(id);
		if (!entry) return false;
		entry.outcome = outcome;
		this.#describe(entry.node, outcome, why);
		return true;
	}

	/** Returns the outcome of a request, undefined if it is not in the list. */
	outcomeOf(id) {
		return this.#entries.get(id)?.outcome;
	}

	/** Returns the ids of requests that were answered in the last milliseconds. */
	answeredWithin(milliseconds) {
		const since = Date.now() - milliseconds;
		return [...this.#entries.values()]
			.filter(({ outcome, at }) => (outcome === "accepted" || outcome === "rejected") && at >= since)
			.map(({ request }) => request.id);
	}

	#describe(node, outcome, why) {
		const label = node.querySelector(".outcome");
		label.textContent = OUTCOMES[outcome];
		label.dataset.outcome = outcome;
		const because = element("span", "why");
		node.querySelector(".why").replaceWith(show(because, why));
	}

	#remove(id) {
		this.#entries.get(id)?.node.remove();
		this.#entries.delete(id);
	}
}
