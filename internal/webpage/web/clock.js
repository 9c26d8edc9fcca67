// The server's clock. Deadlines are in its time, and the clock of this machine may be wrong.

let ahead = 0; // milliseconds by which the server is ahead

/** Returns the server's time in milliseconds. */
export const now = () => Date.now() + ahead;

/** Gets the time of the server, in whole seconds. */
export async function setClock() {
	try {
		const sent = Date.now();
		const { headers } = await fetch("./", { method: "HEAD", cache: "no-store" });
		const theirs = Date.parse(headers.get("Date"));
		if (isNaN(theirs)) return;
		const difference = theirs + 500 - (sent + Date.now()) / 2;
		ahead = Math.abs(difference) > 2000 ? difference : 0;
	} catch {
		// no response: keep the difference
	}
}
