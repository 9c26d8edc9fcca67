// The requests that wait for this person, as on the approval page.

import { Approvals } from "./approvals.js";
import { setClock } from "./clock.js";
import { button, node } from "./nodes.js";

export class ApprovalScreen {
	element;
	#approvals;
	#token; // of the last call of open

	/** counted(count, news) is called when the number of waiting requests changes. */
	constructor(path, counted) {
		const notify = button("Notify: off", undefined, { className: "plain notify" });
		notify.title = "Notify me of new requests while this page is not visible";
		const state = node("p", "connection");
		const text = node("span", "");
		text.setAttribute("role", "status");
		state.append(text);
		const connection = (now, why) => {
			state.dataset.state = now;
			text.textContent = why;
		};
		this.#approvals = new Approvals(path, { connection, counted }, notify);
		this.element = node("section", "pane asked", node("div", "tools", state, notify), this.#approvals.element);
		this.element.setAttribute("aria-label", "Approvals");
	}

	/** Connects with a token, unless the token is the last one. */
	async open(token) {
		if (token === this.#token) return;
		this.#token = token;
		await setClock(); // before deadlines are shown
		this.#approvals.open(token);
	}

	get requests() {
		return this.#approvals.requests;
	}

	retry() {
		if (this.#token !== undefined) this.#approvals.retry();
	}
}
