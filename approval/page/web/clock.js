// The server's clock. Deadlines are the server's, and this machine's clock may be wrong.

let ahead = 0; // how many milliseconds the server is

/** The server's time in milliseconds. */
export const now = () => Date.now() + ahead;

/** Asks the server for its time, which it gives in whole seconds. */
export async function setClock() {
	try {
		const asked = Date.now();
		const { headers } = await fetch("./", { method: "HEAD", cache: "no-store" });
		const theirs = Date.parse(headers.get("Date"));
		if (isNaN(theirs)) return;
		const difference = theirs + 500 - (asked + Date.now()) / 2;
		ahead = Math.abs(difference) > 2000 ? difference : 0;
	} catch {
		// The server has gone; it stays as it was.
	}
}
