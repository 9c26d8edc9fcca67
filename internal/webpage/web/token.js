// The channel's token. It is in the fragment of the page's URL, which browsers do not send. The
// page removes it from the address bar, and keeps it until the tab is closed.

const KEY = "dovetail.token";

/** Returns the token of the URL, or the token of this tab, or "". */
export function takeToken() {
	const given = new URLSearchParams(location.hash.slice(1)).get("token");
	if (given) {
		keepToken(given);
		history.replaceState(null, "", location.pathname + location.search);
	}
	return sessionStorage.getItem(KEY) ?? "";
}

export function keepToken(token) {
	sessionStorage.setItem(KEY, token);
}
