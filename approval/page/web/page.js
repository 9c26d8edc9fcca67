import { setClock } from "./clock.js";
import { Connection } from "./connection.js";
import { PROTOCOL, readFrame } from "./frame.js";
import { History } from "./history.js";
import { switchable } from "./keys.js";
import { Notifier } from "./notify.js";
import { RequestList } from "./requests.js";
import { listen } from "./shortcuts.js";
import { keepToken, takeToken } from "./token.js";

const part = (selector) => document.querySelector(selector);
const title = document.title;

const channel = new Connection(document.body.dataset.channel, PROTOCOL, { changed, read: readFrame, received: (frame) => requests.received(frame) });
const requests = new RequestList(part(".pending"), new History(part(".decided")), (frame) => channel.send(frame), counted, new Notifier(part(".notify")));

const STATES = {
	connecting: "Connecting …",
	connected: "Connected",
	lost: "Not connected: the server cannot be reached. Trying again …",
	occupied: "The server does not accept another approver now. Trying again …",
};

/** Shows the state of the channel. */
function changed(state, why = STATES[state]) {
	part(".connection").dataset.state = state;
	part(".connection [role=status]").textContent = why;
	part(".retry").hidden = state === "connecting" || state === "connected";
	part(".token").hidden = state !== "refused";
	if (state === "connected") {
		setClock();
		requests.connected();
	} else {
		requests.disconnected();
	}
}

/** Shows the number of waiting requests. */
function counted(count, news) {
	document.title = count ? `(${count}) ${title}` : title;
	part(".count").textContent = count;
	part(".empty").hidden = count > 0;
	part(".news").textContent = news;
}

part(".token").onsubmit = (event) => {
	event.preventDefault();
	const field = part(".token input");
	keepToken(field.value.trim());
	field.value = "";
	channel.open(takeToken());
};
part(".retry").onclick = () => channel.retry();
part(".ask-help").onclick = () => part(".help").showModal();
addEventListener("online", () => channel.retry());
addEventListener("hashchange", () => channel.open(takeToken())); // another link in the same tab

listen(requests, part(".help"), switchable(part(".shortcuts input")));
const token = takeToken(); // first, to remove it from the URL
await setClock(); // before deadlines are shown
channel.open(token);
