package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// profile is a form that is filled in beforehand. Pointers make fields optional.
type profile struct {
	Name     *string  `json:"name" jsonschema:"default=John Doe" jsonschema_description:"User name"`
	Age      *int     `json:"age" jsonschema:"default=30" jsonschema_description:"User age"`
	Score    *float64 `json:"score" jsonschema:"default=95.5" jsonschema_description:"User score"`
	Status   *string  `json:"status" jsonschema:"enum=active,enum=inactive,enum=pending,default=active" jsonschema_description:"User status"`
	Verified *bool    `json:"verified" jsonschema:"default=true" jsonschema_description:"Verification status"`
}

// addForms adds tools that show the user forms of every kind of field.
func addForms(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_elicitation_sep1034_defaults", Description: "Shows a form that is filled in beforehand."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			said, err := outcome(server.Elicit[profile](r, "profile", "Please review and update the form fields with defaults"))
			return "Elicitation completed: " + said, err
		})
	server.AddTool(s, server.Tool{Name: "test_elicitation_sep1330_enums", Description: "Shows a form with every kind of choice."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			said, err := outcome(server.ElicitForm(r, "choices", "Please select options from the enum fields", choices()))
			return "Elicitation completed: " + said, err
		})
}

// choices is a form whose options have titles, which no Go type says.
func choices() *mcp.ElicitSchema {
	plain := []mcp.EnumOption{{Value: "option1"}, {Value: "option2"}, {Value: "option3"}}
	return &mcp.ElicitSchema{Fields: []mcp.ElicitField{
		{Name: "untitledSingle", Schema: &mcp.EnumSchema{Description: "Select one option", Options: plain}},
		{Name: "titledSingle", Schema: &mcp.EnumSchema{
			Description: "Select one option with titles", Options: titled("First Option", "Second Option", "Third Option"),
		}},
		{Name: "legacyEnum", Schema: &mcp.EnumSchema{
			Description: "Select one option (legacy)", EnumNames: true,
			Options: []mcp.EnumOption{{Value: "opt1", Title: "Option One"}, {Value: "opt2", Title: "Option Two"}, {Value: "opt3", Title: "Option Three"}},
		}},
		{Name: "untitledMulti", Schema: &mcp.EnumSchema{
			Description: "Select multiple options", Multiple: true, MinItems: new(1), MaxItems: new(3), Options: plain,
		}},
		{Name: "titledMulti", Schema: &mcp.EnumSchema{
			Description: "Select multiple options with titles", Multiple: true, MinItems: new(1), MaxItems: new(3),
			Options: titled("First Choice", "Second Choice", "Third Choice"),
		}},
	}}
}

func titled(titles ...string) []mcp.EnumOption {
	options := make([]mcp.EnumOption, len(titles))
	for i, title := range titles {
		options[i] = mcp.EnumOption{Value: fmt.Sprintf("value%d", i+1), Title: title}
	}
	return options
}

// outcome says what the user did with a question; any other error stays one.
func outcome[T any](content T, err error) (string, error) {
	if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
		return fmt.Sprintf("action=%s, content={}", declined.Action), nil
	}
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(content)
	return fmt.Sprintf("action=accept, content=%s", encoded), err
}
