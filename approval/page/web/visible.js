// Shows untrusted text so that every character is visible and in order. Invisible characters
// appear as their numbers. Right-to-left text is isolated from the text around it.

import { element } from "./element.js";

// Control and format characters, white space other than U+0020, marks, which change other
// characters, and symbols and letters without ink, for which Unicode has no property.
const HIDDEN = String.raw`(?! )[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800\u{1D159}\u{13441}\u{13442}\uFFFD]`;

// Spaces at the end of a line, and long runs of spaces.
const SPACES = ' +(?="?$)| {8,}';

// The right-to-left blocks: Unicode, DerivedBidiClass.txt.
const RIGHT_TO_LEFT = String.raw`(?!${HIDDEN})[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFF\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]`;

const SPECIAL = new RegExp(`(?<hidden>${HIDDEN})|(?<spaces>${SPACES})|(?:${RIGHT_TO_LEFT})+(?: (?:${RIGHT_TO_LEFT})+)*`, "gu");

/** Adds text to a node, and returns the node. */
export function show(node, text) {
	let from = 0;
	for (const match of text.matchAll(SPECIAL)) {
		const special = match[0];
		node.append(text.slice(from, match.index), shownAs(special, match.groups));
		from = match.index + special.length;
	}
	node.append(text.slice(from));
	return node;
}

function shownAs(special, { hidden, spaces }) {
	if (hidden) return numberOf(special);
	if (!spaces) return element("bdi", "", special);
	const marked = element("span", "spaces", special);
	marked.dataset.count = special.length; // shown by the style sheet
	return marked;
}

function numberOf(character) {
	const number = "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
	const shown = element("span", "hidden", number);
	shown.title = "a character that is invisible, or changes how others look";
	return shown;
}
