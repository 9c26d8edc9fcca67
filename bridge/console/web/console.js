import { ApprovalScreen } from "./approvals-screen.js";
import { BuildPanel } from "./build.js";
import { CallDetail } from "./detail.js";
import { CallList } from "./calls.js";
import { Feed } from "./feed.js";
import { onKeys, switchable } from "./keys.js";
import { node, number } from "./nodes.js";
import { PolicyScreen } from "./policy.js";
import { ServerDetail } from "./server.js";
import { ServerList } from "./servers.js";
import { leaveField, press } from "./shortcuts.js";
import { keepToken, takeToken } from "./token.js";

const part = (selector) => document.querySelector(selector);

const STATES = {
	connecting: "Connecting …",
	connected: "Live",
	lost: "Not connected: the server cannot be reached. Trying again …",
	occupied: "The server accepts no more pages now. Trying again …",
};

const token = takeToken(); // first, to remove it from the URL
const feed = new Feed(document.body.dataset.feed, { connection, changed });
const calls = new CallList(feed);
const call = new CallDetail(feed);
const servers = new ServerList(feed);
const server = new ServerDetail(feed);
const policy = new PolicyScreen(feed);
const approvals = new ApprovalScreen(document.body.dataset.channel, counted);
const title = document.title;
const build = new BuildPanel();
const callsScreen = node("div", "split", calls.element, call.element);
const serversScreen = node("div", "split", servers.element, server.element);

/** Returns the screen and the item of the address. */
function route() {
	const [screen, item = ""] = location.hash.slice(1).split("/");
	return { screen: ["servers", "policy", "approvals"].includes(screen) ? screen : "calls", item: decodeURIComponent(item) };
}

function draw() {
	const { screen, item } = route();
	for (const link of document.querySelectorAll("nav a[href^='#']")) {
		if (link.hash === `#${screen}`) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	document.body.classList.toggle("item", item !== "");
	const shown = { calls: callsScreen, servers: serversScreen, policy: policy.element, approvals: approvals.element }[screen];
	if (part("main").firstElementChild !== shown) {
		part("main").replaceChildren(shown);
		approvals.requests.moved();
	}
	if (screen === "calls") {
		const id = item ? Number(item) : undefined;
		calls.select(id);
		call.select(id);
	} else if (screen === "servers") {
		servers.select(item || undefined);
		server.select(item || undefined);
	} else if (screen === "policy") policy.load();
}

function connection(state, why = STATES[state]) {
	part(".connection").dataset.state = state;
	part(".connection [role=status]").textContent = why;
	part(".retry").hidden = state === "connecting" || state === "connected";
	part(".token").hidden = state !== "refused";
}

function changed(what, ids) {
	if (what === "hello") {
		if (part(".role").textContent === "operator" && feed.role !== "operator") location.reload(); // forget what only operators see
		build.draw();
		part(".role").hidden = false;
		part(".role").textContent = feed.role;
		part("nav a[href='#policy']").hidden = !feed.may("whatif");
		const asks = document.body.dataset.channel && feed.role === "operator";
		part("nav a[href='#approvals']").hidden = !asks;
		if (asks) approvals.open(takeToken());
		calls.reset();
		call.refresh();
		draw();
	} else if (what === "calls") {
		calls.changed(ids);
		call.changed(ids);
	} else if (what === "events") {
		const { screen } = route();
		if (screen === "servers") {
			servers.draw();
			server.changed();
		} else if (screen === "policy") policy.load();
	} else if (what === "build") {
		build.draw(feed.build);
	} else if (what === "servers") {
		if (route().screen === "servers") servers.draw();
		server.changed();
		badge("failed", feed.servers.filter(({ status }) => status === "failed").length);
		badge("held", feed.servers.reduce((sum, { held }) => sum + held, 0));
	}
}

/** Shows a number beside the name of a screen. */
function badge(name, count) {
	const shown = part(`.badge.${name}`);
	const text = `${number(count)} ${name}`;
	shown.hidden = count === 0;
	if (shown.textContent === text) return;
	shown.textContent = text;
	if (count > 0) part("#news").textContent = text;
}

/** Shows how many requests wait for this person. */
function counted(count, news) {
	document.title = count ? `(${count}) ${title}` : title;
	badge("waiting", count);
	part("#news").textContent = news;
}

function move(by) {
	const { screen } = route();
	const list = { servers, calls }[screen];
	const next = list?.next(by);
	if (next === undefined) return;
	list.select(next); // now, for the next key: hashchange comes later
	location.hash = `#${screen}/${encodeURIComponent(next)}`;
	part("tr[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
}

let reading = false; // a row was opened with the keyboard
let last = location.hash;

const linkTo = (hash) => [...document.querySelectorAll(".list a")].find((link) => link.hash === hash && link.checkVisibility());

/** Moves the focus to what was opened with the keyboard, and back to its row when its row is shown again. */
function moveFocus() {
	if (reading) part(".detail")?.focus();
	else if (document.activeElement === document.body) linkTo(last)?.focus();
	reading = false;
	last = location.hash;
}

function leaveDetail() {
	if (!document.activeElement.closest(".detail")) return;
	const link = linkTo(location.hash);
	if (link) link.focus();
	else location.hash = `#${route().screen}`;
}

const KEYS = {
	j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
	"/": () => onCalls() && calls.focusFilter(), p: () => onCalls() && calls.pause(), t: () => onCalls() && call.again(), c: () => onCalls() && call.copy(),
	"?": () => part(".help").showModal(), Escape: () => leaveDetail(),
};
const onCalls = () => route().screen === "calls";

onKeys(switchable(part(".shortcuts input")), (key, event) => {
	if (document.querySelector("dialog[open]") || (route().screen === "approvals" && press(approvals.requests, key, event))) return;
	if (!Object.hasOwn(KEYS, key)) return;
	if (key.startsWith("Arrow") && event.target.matches("pre, .detail")) return; // scrolls
	event.preventDefault();
	if (!event.repeat || /^(j|k|Arrow)/.test(key)) KEYS[key]();
}, (event) => {
	if (event.target.closest(".card")) {
		leaveField(event);
		return;
	}
	if (event.target.type === "search") event.preventDefault(); // browsers would empty it, without an event
	event.target.blur();
});

part(".token").onsubmit = (event) => {
	event.preventDefault();
	const field = part(".token input");
	keepToken(field.value.trim());
	field.value = "";
	feed.open(takeToken());
};
part(".retry").onclick = () => feed.retry();
part(".ask-help").onclick = () => part(".help").showModal();
addEventListener("online", () => {
	feed.retry();
	approvals.retry();
});
addEventListener("hashchange", () => {
	if (location.hash.startsWith("#token=")) feed.open(takeToken()); // another link in the same tab
	draw();
	moveFocus();
});
part("main").addEventListener("click", ({ target, detail }) => {
	const link = target.closest(".list a");
	if (link && detail === 0) link.hash === location.hash ? part(".detail").focus() : (reading = true);
});
setInterval(() => {
	calls.tick();
	call.tick();
}, 1000);

part("main").before(build.element);
const above = new ResizeObserver(() => approvals.requests.moved());
for (let node = part("main").previousElementSibling; node; node = node.previousElementSibling) above.observe(node);
draw();
feed.open(token);
