import { Approvals } from "./approvals.js";
import { setClock } from "./clock.js";
import { onKeys, switchable } from "./keys.js";
import { leaveField, press } from "./shortcuts.js";
import { keepToken, takeToken } from "./token.js";

const part = (selector) => document.querySelector(selector);
const title = document.title;

const approvals = new Approvals(document.body.dataset.channel, { connection, counted }, part(".notify"));
part("main").append(approvals.element);

/** Shows the state of the channel. */
function connection(state, why) {
	part(".connection").dataset.state = state;
	part(".connection [role=status]").textContent = why;
	part(".retry").hidden = state === "connecting" || state === "connected";
	part(".token").hidden = state !== "refused";
}

/** Shows the number of waiting requests. */
function counted(count, news) {
	document.title = count ? `(${count}) ${title}` : title;
	part(".news").textContent = news;
}

const showHelp = () => part(".help").showModal();

part(".token").onsubmit = (event) => {
	event.preventDefault();
	const field = part(".token input");
	keepToken(field.value.trim());
	field.value = "";
	approvals.open(takeToken());
};
part(".retry").onclick = () => approvals.retry();
part(".ask-help").onclick = showHelp;
addEventListener("online", () => approvals.retry());
addEventListener("hashchange", () => approvals.open(takeToken())); // another link in the same tab

onKeys(switchable(part(".shortcuts input")), (key, event) => {
	if (press(approvals.requests, key, event) || key !== "?") return;
	event.preventDefault();
	showHelp();
}, leaveField);
const token = takeToken(); // first, to remove it from the URL
await setClock(); // before deadlines are shown
approvals.open(token);
