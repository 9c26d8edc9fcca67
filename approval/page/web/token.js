// The channel's token. It comes in the fragment of the page's URL, which is sent to nobody,
// is taken out of the address bar at once, and lasts as long as the tab.

const KEY = "dovetail.token";

/** The token of the URL, else of this tab, else "". */
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
