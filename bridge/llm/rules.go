package llm

// rules are the documented rules of a model API for the schema of a function's parameters.
type rules struct {
	api    string
	source string // the documentation
	// forbidden are keywords that the root must not have. The root of each API has the type object, as one string.
	forbidden []string
	// properties: the root has properties, which may be empty.
	properties bool
	// items: an array has items.
	items bool
	// anchored: references have the form #/$defs/Name.
	anchored bool
	// names is the pattern of the names of the root's properties, or "".
	names string
}

// apiRules are the rules without options such as strict schemas, as of November 2026. What an API ignores, such as a
// keyword that it does not know, is no rule. Each tool format gets schemas that all of these APIs accept, except for
// names, since each format is also used with other models.
func apiRules() []rules {
	return []rules{
		{
			api: "OpenAI", source: "https://platform.openai.com/docs/guides/function-calling",
			forbidden: []string{"anyOf", "oneOf", "allOf", "enum", "not"}, properties: true, items: true,
		},
		{
			api: "Anthropic", source: "https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use",
			forbidden: []string{"anyOf", "oneOf", "allOf"}, names: anthropicNames,
		},
		{
			api: "Gemini", source: "https://ai.google.dev/api/caching#FunctionDeclaration",
			forbidden: []string{"anyOf", "oneOf", "allOf"}, properties: true, items: true, anchored: true,
		},
	}
}

// anthropicNames is the pattern of the names of properties for Anthropic.
const anthropicNames = `^[a-zA-Z0-9_.-]{1,64}$`
