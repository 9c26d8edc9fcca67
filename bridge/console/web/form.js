// A form for the arguments of a tool. What a person types goes into the JSON text as it is: numbers are not rounded.

import { confirmed } from "./confirm.js";
import { tokens } from "./json.js";
import { button, node, seen } from "./nodes.js";

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

export class TryForm {
	element = node("form", "form");
	#feed;
	#entry;
	#fields; // name, input, and what makes JSON of a text
	#text = node("textarea", "");
	#asText = false;

	constructor(feed, entry) {
		this.#feed = feed;
		this.#entry = entry;
		const schema = JSON.parse(entry.schema || "{}");
		const required = new Set(schema.required ?? []);
		this.#fields = Object.entries(schema.properties ?? {}).map(([name, property]) => field(name, property, required.has(name)));
		this.#text.setAttribute("aria-label", "Arguments as JSON");
		this.#text.spellcheck = false;
		this.element.onsubmit = (event) => {
			event.preventDefault();
			this.#call();
		};
		this.#draw();
	}

	#draw(problem = "") {
		const say = node("p", "say", problem);
		say.setAttribute("role", "status");
		const submit = node("button", "plain accept", "Call…");
		const other = button(this.#asText ? "Edit as a form" : "Edit as JSON", () => this.#switch());
		const inputs = this.#asText ? [this.#text] : this.#fields.map(({ label }) => label);
		this.element.replaceChildren(node("h3", "", "Try it"), ...inputs, node("div", "acts", submit, other), say);
	}

	#switch() {
		if (!this.#asText) {
			try {
				this.#text.value = this.#arguments();
			} catch (error) {
				this.#draw(error.message);
				return;
			}
		}
		this.#asText = !this.#asText;
		this.#draw();
	}

	/** Returns the arguments as JSON, or throws. */
	#arguments() {
		if (this.#asText) return this.#text.value;
		const members = [];
		for (const { name, input, encode } of this.#fields) {
			const text = input.value;
			if (text === "" && !input.required) continue;
			members.push(`${JSON.stringify(name)}:${encode(name, text)}`);
		}
		return `{${members.join(",")}}`;
	}

	async #call() {
		let text;
		try {
			text = this.#arguments();
			JSON.parse(text); // throws if it is not JSON
			if (tokens(text)[0].text !== "{") throw new Error("expected a JSON object");
		} catch (error) {
			this.#draw(error.message);
			return;
		}
		if (!(await confirmed(`Call ${this.#entry.exposed}?`, "The policy and approvals apply to you.", "Call"))) return;
		try {
			const { call } = await this.#feed.ask({ do: "try", exposed: this.#entry.exposed, arguments: text });
			location.hash = `#calls/${call}`;
		} catch (error) {
			this.#draw(error.message);
		}
	}
}

/** Returns a field of the form. */
function field(name, property, required) {
	const type = typeof property === "object" && typeof property.type === "string" ? property.type : "any";
	const choices = type === "boolean" ? ["true", "false"] : (property.enum ?? []).every((value) => typeof value === "string") ? property.enum : undefined;
	const input = choices?.length ? node("select", "", node("option", ""), ...choices.map((choice) => option(choice))) : node(type === "object" || type === "array" || type === "any" ? "textarea" : "input", "");
	input.required = required && type !== "string";
	input.spellcheck = false;
	if (type === "integer" || type === "number") input.inputMode = "decimal";
	const hint = `${type === "any" ? "JSON" : type}${required ? ", required" : ""}`;
	const description = property.description ? seen("quiet", ` ${property.description}`, "small") : "";
	const label = node("label", "", node("span", "", seen("", name), node("small", "", ` ${hint}`), description), input);
	return { name, input, label, encode: ENCODE[type] ?? asJSON };
}

function option(value) {
	const made = seen("", value, "option");
	made.value = value;
	return made;
}

function asNumber(name, text) {
	const trimmed = text.trim();
	if (!NUMBER.test(trimmed)) throw new Error(`${name}: expected a number`);
	return trimmed;
}

function asJSON(name, text) {
	try {
		JSON.parse(text);
	} catch {
		throw new Error(`${name}: expected JSON`);
	}
	return text;
}

const ENCODE = { string: (_, text) => JSON.stringify(text), number: asNumber, integer: asNumber, boolean: (_, text) => text };
