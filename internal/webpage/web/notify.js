// Desktop notifications about new requests, while the page is not visible. They contain the title of
// the tool and the name of its server, never arguments.

import { isOn, onChange, set } from "./settings.js";
import { plain } from "./visible.js";

const SETTING = "notifications";
const MAX_NAME = 80; // characters of a title or a server
const supported = () => isSecureContext && "Notification" in globalThis;

export class Notifier {
	#button;
	#shown; // the last notification

	/** The button switches notifications on and off, and asks the browser for permission. */
	constructor(button) {
		this.#button = button;
		button.hidden = !supported();
		button.onclick = () => this.#toggle();
		document.addEventListener("visibilitychange", () => document.hidden || this.clear());
		onChange(() => this.#show());
		this.#show();
	}

	/** Shows a notification about a request if the page is not visible. */
	announce(request, waiting) {
		if (!document.hidden || !this.#isOn) return;
		const tool = shorten(request.title || request.tool);
		const title = waiting > 1 ? `Approval needed (${waiting} waiting)` : "Approval needed";
		try {
			// One tag for all: a new notification replaces the one before.
			this.#shown = new Notification(title, { body: request.server ? `${tool} on ${shorten(request.server)}` : tool, tag: "dovetail.approval", renotify: true });
		} catch {
			return; // some browsers show notifications of service workers only
		}
		this.#shown.onclick = () => {
			focus();
			this.clear();
		};
	}

	/** Removes the notification. */
	clear() {
		this.#shown?.close();
		this.#shown = undefined;
	}

	get #isOn() {
		return supported() && Notification.permission === "granted" && isOn(SETTING, false);
	}

	async #toggle() {
		const on = !this.#isOn;
		if (on && Notification.permission !== "granted") await Notification.requestPermission();
		set(SETTING, on);
		if (!on) this.clear();
		this.#show();
	}

	#show() {
		if (!supported()) return;
		const blocked = Notification.permission === "denied";
		this.#button.setAttribute("aria-pressed", this.#isOn);
		this.#button.textContent = blocked ? "Notify: blocked by the browser" : `Notify: ${this.#isOn ? "on" : "off"}`;
	}
}

function shorten(name) {
	const characters = [...plain(name)];
	return characters.length <= MAX_NAME ? characters.join("") : characters.slice(0, MAX_NAME - 1).join("") + "…";
}
