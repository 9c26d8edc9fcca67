/** A new element with a class and a text. */
export function element(name, className, text = "") {
	const node = document.createElement(name);
	if (className) node.className = className;
	node.textContent = text;
	return node;
}

/** What is in a template of the page, as a new element. */
export const fromTemplate = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

/** A moment as the time of the day. */
export const timeOfDay = (moment) => moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
