// Text of strangers, shown so that all that is in it can be seen, in the order in which it
// stands there. Characters without a shape of their own appear as their numbers. Text that
// runs from right to left does so by itself: what surrounds it keeps its place.

import { element } from "./element.js";

// Control and format characters, white space other than the plain one, what fonts leave
// blank, and combining marks that have no letter or are too many for one.
const HIDDEN = String.raw`(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\uFFFD]|(?<![\p{L}\p{N}]\p{M}{0,2})\p{M}`;

// The blocks whose characters have that direction: Unicode, DerivedBidiClass.txt.
const RIGHT_TO_LEFT = String.raw`(?!${HIDDEN})[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFF\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]`;

const SPECIAL = new RegExp(`(?<hidden>${HIDDEN})|(?:${RIGHT_TO_LEFT})+(?: (?:${RIGHT_TO_LEFT})+)*`, "gu");

/** Adds text to a node, and returns the node. */
export function show(node, text) {
	let from = 0;
	for (const match of text.matchAll(SPECIAL)) {
		const special = match[0];
		node.append(text.slice(from, match.index), match.groups.hidden ? numberOf(special) : element("bdi", "", special));
		from = match.index + special.length;
	}
	node.append(text.slice(from));
	return node;
}

function numberOf(character) {
	const number = "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
	const shown = element("span", "hidden", number);
	shown.title = "a character that cannot be seen, or changes how others look";
	return shown;
}
