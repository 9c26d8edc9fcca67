// The WebSocket to the server, opened again whenever it ends.

import { PROTOCOL, readFrame } from "./frame.js";

const FIRST_PAUSE = 500; // milliseconds before the first new attempt; each is twice as long
const LONGEST_PAUSE = 15_000;
const SETTLED = 10_000; // a connection that has lasted so long is not about to be refused
const ANOTHER_APPROVER = 1008;

/**
 * A channel tells its listener of its state, as changed(state, why), and of what the server
 * sends, as received(frame). The states:
 *
 *   connecting
 *   connected
 *   lost      it has ended, or could not be opened; it is tried again
 *   occupied  another approver is connected; it is tried again
 *   refused   the server does not let this page in; it waits for another token
 */
export class Channel {
	#url;
	#listener;
	#token = "";
	#socket;
	#attempts = 0;
	#occupied = false;
	#timer;

	constructor(path, listener) {
		this.#url = new URL(path, document.baseURI);
		this.#listener = listener;
	}

	/** Connects with a token, or with the one before, instead of what is there. */
	open(token = this.#token) {
		clearTimeout(this.#timer);
		this.#drop();
		this.#token = token;
		if (this.#attempts === 0) this.#listener.changed("connecting");
		try {
			this.#connect();
		} catch {
			this.#listener.changed("refused", "That cannot be a token: it has characters that none has.");
		}
	}

	/** Tries again now, unless there is a connection. */
	retry() {
		if (this.#socket?.readyState === WebSocket.OPEN) return;
		this.#attempts = 0;
		this.open();
	}

	/** Sends a frame, and tells whether there was a connection. */
	send(frame) {
		if (this.#socket?.readyState !== WebSocket.OPEN) return false;
		this.#socket.send(frame);
		return true;
	}

	#connect() {
		const url = new URL(this.#url);
		url.protocol = url.protocol.replace("http", "ws");
		const socket = new WebSocket(url, this.#token ? [PROTOCOL, `dovetail.token.${this.#token}`] : [PROTOCOL]);
		let opened = false;
		socket.onopen = () => {
			opened = true;
			if (!this.#occupied) this.#listener.changed("connected");
			this.#timer = setTimeout(() => this.#settle(), SETTLED);
		};
		socket.onmessage = ({ data }) => {
			this.#settle();
			this.#receive(data);
		};
		socket.onclose = (event) => this.#ended(event, opened);
		this.#socket = socket;
	}

	/** Forgets a socket: nothing that it still does counts. */
	#drop() {
		const socket = this.#socket;
		if (!socket) return;
		socket.onopen = socket.onmessage = socket.onclose = null;
		socket.close();
		this.#socket = undefined;
	}

	/** A server that has another approver lets a socket open, and closes it some seconds later. */
	#settle() {
		clearTimeout(this.#timer);
		this.#attempts = 0;
		if (!this.#occupied) return;
		this.#occupied = false;
		this.#listener.changed("connected");
	}

	#receive(data) {
		let frame;
		try {
			frame = readFrame(data);
		} catch (error) {
			console.warn(`The server sent what is no request: ${error.message}`);
			return;
		}
		this.#listener.received(frame);
	}

	async #ended({ code, reason }, opened) {
		const socket = this.#socket;
		clearTimeout(this.#timer);
		const refusal = opened ? reason === "the token has changed" && "The token has changed." : await this.#refusal();
		if (socket !== this.#socket) return; // it has been opened anew meanwhile
		this.#occupied = code === ANOTHER_APPROVER && !refusal;
		if (refusal) {
			this.#listener.changed("refused", refusal);
			return;
		}
		this.#listener.changed(this.#occupied ? "occupied" : "lost");
		const pause = Math.min(FIRST_PAUSE * 2 ** this.#attempts++, LONGEST_PAUSE);
		this.#timer = setTimeout(() => this.open(), pause * (0.8 + 0.4 * Math.random()));
	}

	/** Why a handshake has failed, which a browser does not tell; "" if nobody has answered. */
	async #refusal() {
		try {
			const { status } = await fetch(this.#url, { cache: "no-store", redirect: "error" });
			if (status === 426) return "The server does not accept this page’s token. Open the link that it printed, or enter the token.";
			if (status === 403) return "The server does not take requests from this page’s address.";
			if (status === 404) return "There is no approval channel at this server.";
		} catch {
			// It is not there.
		}
		return "";
	}
}
