// What the server sends, and requests to it.

import { Connection } from "./connection.js";

const PROTOCOL = "dovetail.console.v1";
const MAX_CALLS = 10_000; // that are kept, as the server does
const MAX_EVENTS = 1000;

export class Feed {
	calls = new Map(); // by id
	servers = [];
	events = []; // the oldest first
	kept;
	build;
	role = "";
	actions = new Set();
	#ahead = 0; // microseconds by which the clock of the server is ahead
	#connection;
	#listener;
	#open = new Map(); // requests without an answer
	#last = 0;

	/** Calls connection(state, why), and changed(what, ids): hello, calls, servers, events, kept or build. */
	constructor(path, listener) {
		this.#listener = listener;
		this.#connection = new Connection(path, PROTOCOL, {
			changed: (state, why) => this.#stateChanged(state, why),
			read: (text) => JSON.parse(text),
			received: (frame) => this.#received(frame),
		});
	}

	open(token) {
		this.#connection.open(token);
	}

	retry() {
		this.#connection.retry();
	}

	may(action) {
		return this.actions.has(action);
	}

	/** Returns the time of the server in microseconds. */
	now() {
		return Date.now() * 1000 + this.#ahead;
	}

	/** Sends a request, and returns the answer. */
	ask(request) {
		const id = ++this.#last;
		return new Promise((resolve, reject) => {
			this.#open.set(id, { resolve, reject });
			if (!this.#connection.send(JSON.stringify({ id, ...request }))) this.#fail(id, "not connected");
		});
	}

	#fail(id, why) {
		this.#open.get(id)?.reject(new Error(why));
		this.#open.delete(id);
	}

	#stateChanged(state, why) {
		if (state !== "connected") for (const id of [...this.#open.keys()]) this.#fail(id, "the connection was lost");
		this.#listener.connection(state, why);
	}

	#received(frame) {
		switch (frame.type) {
			case "hello":
				this.calls.clear();
				this.events = [];
				this.role = frame.role;
				this.actions = new Set(frame.actions);
				this.#ahead = frame.now - Date.now() * 1000;
				this.#listener.changed("hello");
				return;
			case "calls":
				for (const call of frame.calls) this.calls.set(call.id, call);
				this.#trim();
				this.#listener.changed("calls", frame.calls.map(({ id }) => id));
				return;
			case "servers":
				this.servers = frame.servers;
				this.#listener.changed("servers");
				return;
			case "events":
				this.events = [...this.events, ...frame.events].slice(-MAX_EVENTS);
				this.#listener.changed("events");
				return;
			case "kept":
				this.kept = frame;
				this.#listener.changed("kept");
				return;
			case "build":
				this.build = frame;
				this.#listener.changed("build");
				return;
			case "answer": {
				const { resolve } = this.#open.get(frame.id) ?? {};
				if ("error" in frame) this.#fail(frame.id, frame.error);
				this.#open.delete(frame.id);
				resolve?.(frame);
			}
		}
	}

	/** Drops the oldest calls. */
	#trim() {
		if (this.calls.size <= MAX_CALLS) return;
		const ids = [...this.calls.keys()].sort((a, b) => a - b);
		for (const id of ids.slice(0, ids.length - MAX_CALLS)) this.calls.delete(id);
	}
}
