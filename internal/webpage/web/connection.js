// The WebSocket to the server, with reconnection.

const FIRST_PAUSE = 500; // milliseconds before the first reconnection; doubled for each further one
const LONGEST_PAUSE = 15_000;
const SETTLED = 10_000; // milliseconds after which a connection counts as accepted
const NO_MORE_PAGES = 1008;

/**
 * A connection calls changed(state, why), read(text) and received(frame) of its listener: read returns a frame, or throws. The
 * states:
 *
 *   connecting
 *   connected
 *   lost      the connection has ended, or has failed; the connection is opened again
 *   occupied  the server accepts no more pages now; the connection is opened again
 *   refused   the server refuses this page or its token; another token is necessary
 */
export class Connection {
	#url;
	#protocol;
	#listener;
	#token = "";
	#socket;
	#attempts = 0;
	#occupied = false;
	#timer;

	constructor(path, protocol, listener) {
		this.#url = new URL(path, document.baseURI);
		this.#protocol = protocol;
		this.#listener = listener;
	}

	/** Closes the connection, and connects with a token, by default with the last one. */
	open(token = this.#token) {
		clearTimeout(this.#timer);
		this.#drop();
		this.#token = token;
		if (this.#attempts === 0) this.#listener.changed("connecting");
		try {
			this.#connect();
		} catch {
			this.#listener.changed("refused", "This cannot be a token: it contains invalid characters.");
		}
	}

	/** Reconnects now, unless there is a connection. */
	retry() {
		if (this.#socket?.readyState === WebSocket.OPEN) return;
		this.#attempts = 0;
		this.open();
	}

	/** Sends a frame. Returns false if there is no connection. */
	send(frame) {
		if (this.#socket?.readyState !== WebSocket.OPEN) return false;
		this.#socket.send(frame);
		return true;
	}

	#connect() {
		const url = new URL(this.#url);
		url.protocol = url.protocol.replace("http", "ws");
		const socket = new WebSocket(url, this.#token ? [this.#protocol, `dovetail.token.${this.#token}`] : [this.#protocol]);
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

	/** Closes the socket and ignores its further events. */
	#drop() {
		const socket = this.#socket;
		if (!socket) return;
		socket.onopen = socket.onmessage = socket.onclose = null;
		socket.close();
		this.#socket = undefined;
	}

	/** Marks the connection as accepted. A server that accepts no more pages closes it within seconds. */
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
			frame = this.#listener.read(data);
		} catch (error) {
			console.warn(`The server sent an invalid frame: ${error.message}`);
			return;
		}
		this.#listener.received(frame);
	}

	async #ended({ code, reason }, opened) {
		const socket = this.#socket;
		clearTimeout(this.#timer);
		const refusal = opened ? reason === "the token has changed" && "The token has changed." : await this.#refusal();
		if (socket !== this.#socket) return; // reconnected while waiting
		this.#occupied = code === NO_MORE_PAGES && !refusal;
		if (refusal) {
			this.#listener.changed("refused", refusal);
			return;
		}
		this.#listener.changed(this.#occupied ? "occupied" : "lost");
		const pause = Math.min(FIRST_PAUSE * 2 ** this.#attempts++, LONGEST_PAUSE);
		this.#timer = setTimeout(() => this.open(), pause * (0.8 + 0.4 * Math.random()));
	}

	/** Returns why a handshake failed, which a browser does not report; "" if there is no response. */
	async #refusal() {
		try {
			const { status } = await fetch(this.#url, { cache: "no-store", redirect: "error" });
			if (status === 426 || status === 401) return this.#token ? "The server does not accept this page’s token. Open the link that it printed, or enter the token." : "The server does not know who you are. Reload this page to log in, or enter a token.";
			if (status === 403) return "The server does not take requests from this page’s address.";
			if (status === 404) return "The server is not for this page.";
		} catch {
			// no response
		}
		return "";
	}
}
