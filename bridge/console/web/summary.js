// Parts of the selected call.

import { clock, node, number, seen } from "./nodes.js";

/** Returns the name of a call, with a link to its server, and its outcome. */
export function header(row) {
	const state = node("b", "state", row.outcome);
	state.dataset.outcome = row.outcome;
	const server = seen("server", row.server, "a");
	server.href = `#servers/${encodeURIComponent(row.server)}`;
	return node("header", "", node("h2", "", ...(row.server ? [server, "."] : []), seen("", row.name)), state);
}

/** Returns the way to the approvals, if this page has them. */
export function waits() {
	const link = document.querySelector("nav a[href='#approvals']");
	if (link.hidden) return node("p", "why", "It waits for the answer of a person.");
	const to = node("a", "go", "Answer it under Approvals");
	to.href = link.hash;
	return node("p", "why", "It waits for the answer of a person. ", to);
}

/** Returns what decided about a call. */
export function decided({ effect, rule }, reason, decision) {
	const by = decision ? node("span", "quiet", ` · ${decision.approved ? "accepted" : "refused"} by `, seen("", decision.by || "a person"),
		decision.remembered ? ` for equal calls, on ${new Date(decision.at / 1000).toLocaleDateString()} at ${clock(decision.at)}` : "", decision.reason ? seen("", `: ${decision.reason}`) : "") : "";
	return node("p", "why", node("b", `effect ${effect}`, { ask: "Asked", allow: "Allowed", deny: "Denied" }[effect]), " by the rule ", seen("", rule || "without a name", "code"), reason ? seen("", `: ${reason}`) : "", by);
}

/** Returns the last progress and log messages of a call. */
export function noticeList(notices, dropped) {
	const list = node("ol", "notices");
	if (dropped) list.append(node("li", "quiet", `${number(dropped)} earlier ones are not kept`));
	for (const { at, level, text } of notices.slice(-50)) list.append(node("li", "", node("span", "time", clock(at)), seen("quiet", level), seen("", text)));
	return node("section", "", node("h3", "", "Messages"), list);
}
