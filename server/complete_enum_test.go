package server_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

// A grain is one of a few.
type grain string

func (grain) EnumValues() []grain { return []grain{"rye", "rice", "wheat"} }

// An argument that may have some values only completes itself, and takes no other.
func TestEnumsCompleteThemselves(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "bake"}, func(_ context.Context, _ *server.Request, in struct {
			Grain grain  `json:"grain"`
			Size  string `json:"size,omitempty" jsonschema:"enum=small,enum=large"`
			Note  string `json:"note,omitempty"`
		}) (string, error) {
			return string(in.Grain) + in.Size, nil
		})
		server.AddTemplate(s, server.Template{URITemplate: "grain://{grain}"}, func(_ context.Context, _ *server.Request, in struct {
			Grain grain `json:"grain"`
		}) (string, error) {
			return string(in.Grain), nil
		})
		session := connect(t, s, era)
		for _, test := range []struct {
			argument, typed string
			want            []string
		}{
			{"grain", "r", []string{"rye", "rice"}}, {"grain", "", []string{"rye", "rice", "wheat"}}, {"grain", "x", []string{}},
			{"size", "l", []string{"large"}}, {"note", "", []string{}},
		} {
			got, err := session.CompletePrompt(t.Context(), "bake", test.argument, test.typed, nil)
			if err != nil || !slices.Equal(got.Values, test.want) {
				t.Errorf("%s %q: completed %+v, %v; want %q", test.argument, test.typed, got, err, test.want)
			}
		}
		_, err := session.Prompt(t.Context(), "bake", map[string]string{"grain": "stone"}, nil)
		if wantCode(t, err, jsonrpc.InvalidParams); !strings.Contains(message(err), "expected one of rye, rice, wheat") {
			t.Errorf("the error is %v", err)
		}
		_, err = session.Read(t.Context(), "grain://stone", nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}
