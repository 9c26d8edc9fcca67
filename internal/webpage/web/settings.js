// Settings of the person, which the browser keeps for this page's origin. They contain no secret.

const PREFIX = "dovetail.setting.";

/** Returns whether a setting is on. Without storage the default holds. */
export function isOn(name, byDefault) {
	try {
		return (localStorage.getItem(PREFIX + name) ?? (byDefault ? "on" : "off")) === "on";
	} catch {
		return byDefault;
	}
}

export function set(name, on) {
	try {
		localStorage.setItem(PREFIX + name, on ? "on" : "off");
	} catch {
		// the setting holds until the page is closed
	}
}

/** Calls fn when another tab has changed a setting. */
export function onChange(fn) {
	addEventListener("storage", ({ key }) => {
		if (key === null || key.startsWith(PREFIX)) fn();
	});
}
