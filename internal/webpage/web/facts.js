// What a person should know about a tool, in words.

/** Returns what a tool does to data, {effect, text, source}, according to its annotations. */
export function effectOf({ readOnly, destructive, trusted }) {
	const [effect, text] = readOnly ? ["none", "Changes nothing"]
		: destructive === false ? ["change", "Adds or changes data, does not delete or overwrite it"]
		: ["destructive", "May delete or overwrite data"];
	const said = readOnly || destructive !== undefined;
	const source = said ? (trusted ? "according to a trusted server" : "the server says so; not verified") : "no information from the server";
	return { effect, text, source };
}

/** Splits a launch description into its text and the digest at its end, "" if there is none. */
export function splitLaunch(launch) {
	const [, text, digest] = /^(.+) (sha256:[0-9a-f]{64})$/s.exec(launch) ?? [];
	return digest ? [text, digest] : [launch, ""];
}

/** Formats a number of seconds, such as "5 minutes". */
export function duration(seconds) {
	for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60]]) {
		if (seconds >= size && seconds % size === 0) return count(seconds / size, unit);
	}
	if (seconds < 60) return count(seconds, "second");
	return `${count(Math.floor(seconds / 60), "minute")} ${count(seconds % 60, "second")}`;
}

const count = (n, unit) => `${n} ${unit}${n === 1 ? "" : "s"}`;

const CHOICES = [60, 300, 900, 3600, 4 * 3600, 86_400]; // seconds

/** Returns the times for which a yes can be remembered, up to a limit. */
export const choices = (limit) => (limit > 0 ? [...CHOICES.filter((seconds) => seconds < limit), limit] : []);

const DECISIONS = { approved: "accepted", rejected: "rejected", failed: "could not answer" };

/** Describes the decision of another approver. */
export function byAnother({ decision, by, why, remember }) {
	const who = by || "Another approver";
	const what = DECISIONS[decision] ?? decision;
	const more = remember > 0 ? `, also equal calls for ${duration(remember)}` : "";
	return `${who} ${what}${more}${why ? `: ${why}` : "."}`;
}
