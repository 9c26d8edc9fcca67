package server_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

var update = flag.Bool("update", false, "write what the server says into testdata/*/*.txtar")

// TestTranscripts plays the conversations in testdata, a folder for each era: what
// a client sends, and what the server must answer, line by line as on the wire.
//
// A file is a comment and sections: client lines, server lines, and things to do
// to the server. In client lines @meta stands for the _meta of a modern request;
// (state 1) stands for the first sealed state, which is never twice the same.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script := parseArchive(string(data))
			var played archive
			synctest.Test(t, func(t *testing.T) { played = play(t, script) })
			if *update {
				if err := os.WriteFile(file, []byte(played.String()), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(script.String(), "\n"), strings.Split(played.String(), "\n")); diff != "" {
				t.Errorf("the conversation is another (-want +got):\n%s", diff)
			}
		})
	}
}

// An archive is a text in sections, in the txtar format of Go's own tests.
type archive struct {
	comment  string
	sections []section
}

type section struct{ name, text string }

var marker = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

func parseArchive(text string) archive {
	marks := marker.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		return archive{comment: text}
	}
	a := archive{comment: text[:marks[0][0]]}
	for i, mark := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		a.sections = append(a.sections, section{text[mark[2]:mark[3]], text[mark[1]:end]})
	}
	return a
}

func (a archive) String() string {
	var b strings.Builder
	b.WriteString(a.comment)
	for _, s := range a.sections {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	return b.String()
}

const transcriptMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"reader","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// play sends the client's lines and does what is to be done, one after the
// other, and returns the script with what the server said.
func play(t *testing.T, script archive) archive {
	t.Helper()
	s := newTranscriptServer()
	near, far := transport.Streams()
	conn := jsonrpc.NewConn(near, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return s.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go})
	}, nil)
	go conn.Run(context.Background())
	said := make(chan string, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			frame, err := far.Read()
			if err != nil {
				return
			}
			said <- string(frame)
		}
	}()
	defer func() {
		conn.Close()
		far.Close()
		<-ended
	}()

	var states []string
	played := archive{comment: script.comment}
	for _, part := range script.sections {
		if part.name == "server" {
			continue // said again below
		}
		played.sections = append(played.sections, part)
		var answers strings.Builder
		for line := range strings.Lines(part.text) {
			line = strings.TrimSpace(line)
			if part.name == "do" {
				do(t, s, line)
			} else {
				send(t, far, line, states)
			}
			synctest.Wait()
			for len(said) > 0 {
				var frame string
				frame, states = withoutStates(<-said, states)
				answers.WriteString(frame + "\n")
			}
		}
		if answers.Len() > 0 {
			played.sections = append(played.sections, section{"server", answers.String()})
		}
	}
	return played
}

func send(t *testing.T, to jsonrpc.Stream, line string, states []string) {
	t.Helper()
	line = strings.ReplaceAll(line, "@meta", transcriptMeta)
	for i, state := range states {
		line = strings.ReplaceAll(line, fmt.Sprintf("(state %d)", i+1), state)
	}
	if err := to.Write(context.Background(), []byte(line)); err != nil {
		t.Fatal(err)
	}
}

var sealed = regexp.MustCompile(`dt1\.[\w-]+`)

func withoutStates(frame string, states []string) (string, []string) {
	frame = sealed.ReplaceAllStringFunc(frame, func(state string) string {
		if !slices.Contains(states, state) {
			states = append(states, state)
		}
		return fmt.Sprintf("(state %d)", slices.Index(states, state)+1)
	})
	return frame, states
}

func do(t *testing.T, s *server.Server, command string) {
	t.Helper()
	verb, what, _ := strings.Cut(command, " ")
	switch verb {
	case "add-tool":
		returns(s, what, "new")
	case "remove-tool":
		s.Remove(mcp.KindTool, what)
	case "update":
		s.ResourceUpdated(what)
	case "shut-down":
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	default:
		t.Fatalf("nobody knows how to %q", command)
	}
}

func newTranscriptServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1", Title: "The bakery"}, &server.Options{
		Instructions: "Read a recipe before you order.", PageSize: 3, Logger: quiet(),
	})
	server.AddTool(s, server.Tool{Name: "add", Title: "Add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in struct {
			A int `json:"a" jsonschema_description:"first summand"`
			B int `json:"b" jsonschema:"minimum=0"`
		}) (int, error) {
			return in.A + in.B, nil
		})
	server.AddTool(s, server.Tool{Name: "order", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false)}},
		func(ctx context.Context, r *server.Request, in struct {
			Bread string `json:"bread"`
		}) (point, error) {
			r.Logger("oven").Info("heating", "degrees", 230)
			if err := r.Progress(ctx, 1, 2, "heating"); err != nil {
				return point{}, err
			}
			answer, err := server.Elicit[struct {
				Loaves int `json:"loaves" jsonschema:"minimum=1,maximum=12"`
			}](r, "loaves", "How many loaves of "+in.Bread+"?")
			if err != nil {
				return point{}, err
			}
			return point{X: answer.Loaves}, r.Progress(ctx, 2, 2, "done")
		})
	server.AddTool(s, server.Tool{Name: "sleep"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	server.AddTool(s, server.Tool{Name: "picture"}, func(context.Context, *server.Request, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Image([]byte{1, 2, 3}, "image/png"), mcp.Audio([]byte("hum"), "audio/wav"), &mcp.ResourceLink{URI: "recipe:rye", Name: "rye"}}, nil
	})
	reads(s, server.Resource{URI: "recipe:rye", Name: "rye", MIMEType: "text/plain"}, "rye, water, salt")
	server.AddTemplate(s, server.Template{URITemplate: "recipe:{bread}{?servings}", Name: "recipe"},
		func(_ context.Context, _ *server.Request, vars struct {
			Bread    string `json:"bread"`
			Servings int    `json:"servings,omitempty"`
		}) (map[string]any, error) {
			if vars.Bread != "wheat" {
				return nil, mcp.ResourceNotFound("recipe:" + vars.Bread)
			}
			return map[string]any{"flour": vars.Bread, "servings": vars.Servings}, nil
		})
	server.AddPrompt(s, server.Prompt{Name: "greet", Description: "Greet a customer."},
		func(_ context.Context, _ *server.Request, args struct {
			Name string `json:"name" jsonschema_description:"who comes in"`
		}) (string, error) {
			return "Welcome " + args.Name + ".", nil
		})
	server.AddCompletion(s, server.Completion{Template: "recipe:{bread}{?servings}", Argument: "bread"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			return slices.DeleteFunc([]string{"rye", "wheat"}, func(bread string) bool { return !strings.HasPrefix(bread, typed) }), nil
		})
	return s
}

// TestArchive: a file that is read and written is the same file.
func TestArchive(t *testing.T) {
	for _, text := range []string{"", "only a comment\n", "-- a --\n", "x\n-- a --\n1\n-- b c --\n-- b --\n2\n"} {
		if got := parseArchive(text).String(); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
