package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/server"
)

// addCompletions completes the arguments of a prompt, the second in the light of
// the first, and the variable of the template.
func addCompletions(s *server.Server) {
	const prompt = "test_prompt_with_arguments"
	server.AddCompletion(s, server.Completion{Prompt: prompt, Argument: "arg1"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			return beginning(typed, "paris", "park", "party"), nil
		})
	server.AddCompletion(s, server.Completion{Prompt: prompt, Argument: "arg2"},
		func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			if others["arg1"] == "paris" {
				return beginning(typed, "louvre", "pantheon"), nil
			}
			return nil, nil
		})
	server.AddCompletion(s, server.Completion{Template: recordTemplate, Argument: "id"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			ids := make([]string, 150)
			for i := range ids {
				ids[i] = strconv.Itoa(i + 1)
			}
			return beginning(typed, ids...), nil
		})
}

// beginning are the values that begin with what was typed.
func beginning(typed string, values ...string) []string {
	var matching []string
	for _, value := range values {
		if strings.HasPrefix(value, typed) {
			matching = append(matching, value)
		}
	}
	return matching
}
