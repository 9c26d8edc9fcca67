package mcp_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestAsInputRequired(t *testing.T) {
	ask := func(key string) error {
		return &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: {Method: mcp.MethodElicit}}}
	}
	failure := errors.New("failure")
	for _, test := range []struct {
		name string
		err  error
		want []string
	}{
		{"none", nil, nil},
		{"failure", failure, nil},
		{"question", ask("a"), []string{"a"}},
		{"wrapped", fmt.Errorf("asking: %w", ask("a")), []string{"a"}},
		{"joined", errors.Join(ask("a"), nil, ask("b")), []string{"a", "b"}},
		{"joined and wrapped", fmt.Errorf("asking: %w", errors.Join(ask("a"), fmt.Errorf("more: %w", ask("b")))), []string{"a", "b"}},
		{"with a failure", errors.Join(ask("a"), failure), nil},
		{"with a wrapped failure", errors.Join(fmt.Errorf("%w", failure), ask("a")), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			question, ok := mcp.AsInputRequired(test.err)
			var keys []string
			if ok {
				keys = slices.Sorted(maps.Keys(question.Requests))
			}
			if diff := cmp.Diff(test.want, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
}
