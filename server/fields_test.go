package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
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

type tour struct {
	Days  int      `json:"days" jsonschema:"default=3"`
	Guide bool     `json:"guide" jsonschema:"default=true"`
	Pace  string   `json:"pace,omitempty" jsonschema:"enum=slow,enum=fast,default=slow"`
	Stops []string `json:"stops" jsonschema:"default=Bern,default=Thun"`
	Cost  float64  `json:"cost,omitempty"`
}

// TestDefaultsOfFields: what a tag says is there when a caller says nothing, in prompts
// and templates alike, and its field need not be given.
func TestDefaultsOfFields(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddPrompt(s, server.Prompt{Name: "tour"}, func(_ context.Context, _ *server.Request, in tour) (string, error) {
			defer func() { in.Stops[0] = "nowhere" }() // they are the function's
			return fmt.Sprint(in), nil
		})
		server.AddTemplate(s, server.Template{URITemplate: "tour:all{?days,guide,pace,stops*,cost}"}, func(_ context.Context, _ *server.Request, in tour) (string, error) {
			return fmt.Sprint(in), nil
		})
		session := connect(t, s, era)
		for _, test := range []struct {
			query     string
			arguments map[string]string
			want      string
		}{
			{"", nil, "{3 true slow [Bern Thun] 0}"},
			{"", nil, "{3 true slow [Bern Thun] 0}"},
			{"?days=5&guide=false&pace=fast&stops=Biel&cost=1e2", map[string]string{"days": "5", "guide": "false", "pace": "fast", "stops": "Biel", "cost": "1e2"}, "{5 false fast [Biel] 100}"},
		} {
			if got := contents(t, session, "tour:all"+test.query); !strings.Contains(got, test.want) {
				t.Errorf("%s holds %s, want %s", test.query, got, test.want)
			}
			prompt, err := session.Prompt(t.Context(), "tour", test.arguments, nil)
			if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != test.want {
				t.Errorf("%v gives %+v, %v, want %s", test.arguments, prompt, err, test.want)
			}
		}
		for prompt, err := range session.Prompts(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			for _, argument := range prompt.Arguments {
				if argument.Required {
					t.Errorf("%s must be given", argument.Name)
				}
			}
		}
	})
}

// TestDefaultsThatDoNotFit are mistakes of the program.
func TestDefaultsThatDoNotFit(t *testing.T) {
	_, choice := server.NewPrompt(server.Prompt{Name: "x"}, nothing[struct {
		Pace string `jsonschema:"enum=slow,enum=fast,default=steady"`
	}])
	_, size := server.NewPrompt(server.Prompt{Name: "x"}, nothing[struct {
		Days int8 `jsonschema:"default=1000"`
	}])
	for says, err := range map[string]error{`field Pace: the default: expected one of slow, fast, got "steady"`: choice, "field Days: the default: expected an integer of 8 bits": size} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want %s", err, says)
		}
	}
}

// TestWordsOfFields: how people write values, and what is none.
func TestWordsOfFields(t *testing.T) {
	type words struct {
		B bool      `json:"b,omitempty"`
		N int       `json:"n,omitempty"`
		F float64   `json:"f,omitempty"`
		T time.Time `json:"t,omitzero"`
		L []string  `json:"l,omitempty" jsonschema:"enum=x,enum=y"`
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTemplate(s, server.Template{URITemplate: "w:all{?b,n,f,t,l*}"}, func(_ context.Context, _ *server.Request, in words) (string, error) {
			return fmt.Sprint(in.B, in.N, in.F, in.T.Year(), in.L), nil
		})
		session := connect(t, s, era)
		for query, want := range map[string]string{
			"b=1": "true", "b=true": "true", "b=YES": "true", "b=On": "true", "b=TRUE": "true",
			"b=0": "false", "b=false": "false", "b=no": "false", "b=OFF": "false",
			"n=-7": "-7", "n=007": " 7 ", "f=1.5e3": "1500", "f=.5": "0.5", "t=2026-07-28T00:00:00Z": "2026", "l=x&l=y": "[x y]",
		} {
			if got := contents(t, session, "w:all?"+query); !strings.Contains(got, want) {
				t.Errorf("%s gives %s, want %s", query, got, want)
			}
		}
		for query, name := range map[string]string{
			"b=": "b", "b=maybe": "b", "b=2": "b", "b=t": "b", "b=%20true": "b",
			"n=": "n", "n=%207": "n", "n=1_000": "n", "n=0x10": "n", "n=1.0": "n", "n=9223372036854775808": "n",
			"f=": "f", "f=1_000.5": "f", "f=NaN": "f", "f=Inf": "f", "f=-infinity": "f", "f=1e400": "f", "f=0x1p4": "f",
			"t=today": "t", "l=z": "l", "l=x&l=": "l",
		} {
			_, err := session.Read(t.Context(), "w:all?"+query, nil)
			if wantCode(t, err, jsonrpc.InvalidParams); !strings.Contains(message(err), fmt.Sprintf("%q: ", name)) {
				t.Errorf("%s: the error is %v, want it to name %s", query, err, name)
			}
		}
	})
}
