package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server"
)

type named struct {
	Name string `json:"name"`
}

// A struct embedded by a pointer would be nil when its fields are set.
func TestFieldsOfEmbeddedPointersAreRefused(t *testing.T) {
	_, err := server.NewPrompt(server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct{ *named }) (string, error) {
		return in.Name, nil
	})
	if err == nil || !strings.Contains(err.Error(), "embedded pointer") {
		t.Errorf("the error is %v", err)
	}
	entry, err := server.NewPrompt(server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct{ named }) (string, error) {
		return in.Name, nil
	})
	if err != nil || entry == nil {
		t.Errorf("an embedded struct: %v", err)
	}
}
