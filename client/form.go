package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// schemaKeywords are keywords that can hide fields from a client that shows only the properties
// of a form.
var schemaKeywords = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties",
}

// fieldKeywords are keywords of schemas that contain other fields. Choices may use oneOf and anyOf.
var fieldKeywords = []string{"$ref", "$dynamicRef", "allOf", "properties", "patternProperties"}

// secretWords are words that name a secret, as words returns them.
var secretWords = []string{
	"_password_", "_passwords_", "_passwd_", "_passphrase_", "_passcode_", "_secret_", "_secrets_", "_credential_", "_credentials_",
	"_api_key_", "_apikey_", "_access_key_", "_private_key_", "_access_token_", "_auth_token_", "_bearer_token_", "_refresh_token_",
	"_card_number_", "_cvv_", "_cvc_",
}

// checkForm returns an error for a form that the user must not get: one that asks for a secret,
// which the protocol forbids (MCP 2026-07-28, elicitation), or one with fields in other places
// than its properties, where a check of the fields would not find them. A server that
// disguises the name of a secret is not found.
func checkForm(params *mcp.ElicitParams) error {
	if params.Mode == mcp.ElicitURL || params.RequestedSchema == nil {
		return nil
	}
	form, err := jsonscan.ReadObject(params.RequestedSchema)
	if err != nil {
		return err
	}
	for _, keyword := range schemaKeywords {
		if form.Get(keyword) != nil {
			return fmt.Errorf("the schema of a form must not contain %s", keyword)
		}
	}
	if others := form.Get("additionalProperties"); others != nil && jsonscan.KindOf(others) == jsonscan.Object {
		return errors.New("additionalProperties in the schema of a form must be true or false")
	}
	fields := form.Get("properties")
	if fields == nil {
		return nil
	}
	properties, err := jsonscan.ReadObject(fields)
	if err != nil {
		return err
	}
	for property := range properties.All() {
		if err := checkField(property.Name(), property.Value); err != nil {
			return fmt.Errorf("the field %.64q: %w", property.Name(), err)
		}
	}
	return nil
}

func checkField(name string, raw json.RawMessage) error {
	field, err := jsonscan.ReadObject(raw)
	if err != nil {
		return err
	}
	for _, keyword := range fieldKeywords {
		if field.Get(keyword) != nil {
			return fmt.Errorf("the schema of a field must not contain %s", keyword)
		}
	}
	text := func(member string) string {
		var text string
		_ = json.Unmarshal(field.Get(member), &text) // another type is no text
		return text
	}
	namesSecret := func(text string) bool {
		text = words(text)
		return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(text, word) })
	}
	switch {
	case text("type") == "object":
		return errors.New("the schema of a field must not be an object")
	case namesSecret(name), namesSecret(text("title")), text("format") == "password":
		return errors.New("a form must not ask for a secret; ask with a URL")
	}
	return nil
}

// words returns the words of a name in lower case, each between underscores: _new_password_ for
// newPassword.
func words(name string) string {
	var b strings.Builder
	b.WriteByte('_')
	var before rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			r = '_'
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteByte('_')
		}
		if r != '_' || before != '_' {
			b.WriteRune(unicode.ToLower(r))
		}
		before = r
	}
	b.WriteByte('_')
	return b.String()
}
