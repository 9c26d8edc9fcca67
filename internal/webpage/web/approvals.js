// The requests that wait for a person, those that have ended, and the connection to the channel.

import { setClock } from "./clock.js";
import { Connection } from "./connection.js";
import { fromTemplate } from "./element.js";
import { PROTOCOL, readFrame } from "./frame.js";
import { History } from "./history.js";
import { Notifier } from "./notify.js";
import { RequestList } from "./requests.js";

const STATES = {
	connecting: "Connecting …",
	connected: "Connected",
	lost: "Not connected: the server cannot be reached. Trying again …",
	occupied: "The server does not accept another approver now. Trying again …",
};

export class Approvals {
	element = fromTemplate("approvals");
	requests;
	#channel;
	#listener;

	/**
	 * The path is that of the channel, and the button switches notifications on and off. The listener gets connection(state, why),
	 * and counted(count, news) when the number of waiting requests changes.
	 */
	constructor(path, listener, notifyButton) {
		this.#listener = listener;
		this.#channel = new Connection(path, PROTOCOL, {
			changed: (state, why = STATES[state]) => this.#changed(state, why),
			read: readFrame,
			received: (frame) => this.requests.received(frame),
		});
		const [waiting, ended] = [".pending", ".decided"].map((list) => this.element.querySelector(list));
		this.requests = new RequestList(waiting, new History(ended), (frame) => this.#channel.send(frame), (...count) => this.#counted(...count), new Notifier(notifyButton));
	}

	/** Connects with a token, after a call of setClock. */
	open(token) {
		this.#channel.open(token);
	}

	retry() {
		this.#channel.retry();
	}

	#changed(state, why) {
		this.#listener.connection(state, why);
		if (state === "connected") {
			setClock();
			this.requests.connected();
		} else {
			this.requests.disconnected();
		}
	}

	#counted(count, news) {
		this.element.querySelector(".count").textContent = count;
		this.element.querySelector(".empty").hidden = count > 0;
		this.#listener.counted(count, news);
	}
}
