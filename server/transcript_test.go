package server_test

import (
	"context"
	"errors"
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

	"github.com/dovetail-go/dovetail/client"
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
// to the server. In client lines, @meta is replaced by the _meta of a modern request;
// (state 1) means the first sealed state, which differs in each session.
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
	near, far := transport.NewPipe()
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
		Instructions: "Read a recipe before you order.", PageSize: 3, Logger: discardLogger(),
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

// newBakeries is a server with entries of every kind, also of mounts and services.
func newBakeries(t testing.TB) *server.Server {
	t.Helper()
	s := newServer(&server.Options{PageSize: 3, Logger: discardLogger(), Instructions: "Bake first."})
	child := newServer(&server.Options{Logger: discardLogger(), Scopes: []string{"child"}})
	grandchild := newServer(&server.Options{Logger: discardLogger()})
	addBakeryNamed(s, "own")
	addBakeryNamed(child, "child")
	addBakeryNamed(grandchild, "deep")
	mount(t, child, grandchild, "")
	mount(t, s, child, "c_")
	return s
}

type loavesIn struct {
	Loaves int    `json:"loaves" jsonschema:"minimum=1" jsonschema_description:"how many"`
	Kind   string `json:"kind,omitempty" jsonschema:"enum=rye,enum=wheat"`
}

type loavesOut struct {
	Loaves int    `json:"loaves"`
	Of     string `json:"of"`
}

type recipeIn struct {
	Grain string `json:"grain" jsonschema:"enum=rye,enum=wheat,enum=spelt"`
	Salt  string `json:"salt,omitempty" jsonschema_description:"grams"`
}

type shelfIn struct {
	Shelf string `json:"shelf" jsonschema:"enum=top,enum=bottom"`
	Limit int    `json:"limit,omitempty"`
}

// addBakeryNamed registers entries of every kind, with names that begin with of.
func addBakeryNamed(s *server.Server, of string) {
	hidden := []mcp.Guard{staffOnly}
	server.AddTool(s, server.Tool{Name: of + ".order", Title: "Order", Description: "Orders loaves."},
		func(_ context.Context, _ *server.Request, in loavesIn) (loavesOut, error) {
			if in.Loaves > 9 {
				return loavesOut{}, errors.New("the oven holds 9 loaves")
			}
			return loavesOut{in.Loaves, of}, nil
		})
	server.AddTool(s, server.Tool{Name: of + ".fail", Scopes: []string{of + ":fail"}}, func(_ context.Context, _ *server.Request, in struct {
		How string `json:"how"`
	}) (string, error) {
		switch in.How {
		case "protocol":
			return "", fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: -409, Message: "sold out", Data: jsonRaw(`{"of":"rye"}`)})
		case "not found":
			return "", mcp.ResourceNotFound("app:" + of + "/gone")
		}
		return "", errors.New("it failed: " + in.How)
	})
	server.AddTool(s, server.Tool{Name: of + ".secret", Guards: hidden}, nothing[struct{}])
	server.AddRawTool(s, server.Tool{Name: of + ".raw", InputSchema: jsonRaw(`{"type":"object","required":["x"]}`)},
		func(_ context.Context, _ *server.Request, arguments jsonRaw) (mcp.Result, error) {
			return mcp.Raw(fmt.Sprintf(`{"content":[],"structuredContent":{"of":%q,"got":%s},"_meta":{"of":1}}`, of, arguments)), nil
		})
	read := func(_ context.Context, r *server.Request) (string, error) {
		return of + " resource " + r.Call().Target().Name, nil
	}
	server.AddResource(s, server.Resource{URI: "app:" + of + "/menu", Name: "menu", CacheHint: mcp.CacheHint{TTLMs: 5, Scope: mcp.CachePublic}}, read)
	server.AddResource(s, server.Resource{URI: "app:" + of + "/shelf/top", MIMEType: "text/plain", Scopes: []string{of + ":read"}}, read)
	server.AddResource(s, server.Resource{URI: "app:" + of + "/secret", Guards: hidden, CacheHint: mcp.CacheHint{TTLMs: 5, Scope: mcp.CachePublic}}, read)
	server.AddResource(s, server.Resource{URI: "app:" + of + "/broken"}, func(context.Context, *server.Request) (string, error) {
		return "", errors.New("the shelf is broken")
	})
	server.AddTemplate(s, server.Template{URITemplate: "app:" + of + "/shelf/{shelf}{?limit}", Scopes: []string{of + ":shelf"}},
		func(_ context.Context, r *server.Request, in shelfIn) (string, error) {
			return fmt.Sprint(of, " template ", r.Call().Target().Name, " ", in), nil
		})
	server.AddTemplate(s, server.Template{URITemplate: "app:" + of + "/{+path}"}, func(_ context.Context, r *server.Request, in struct {
		Path string `json:"path"`
	}) (string, error) {
		return fmt.Sprint(of, " template ", r.Call().Target().Name, " ", in), nil
	})
	server.AddPrompt(s, server.Prompt{Name: of + ".recipe", Description: "A recipe."}, func(_ context.Context, _ *server.Request, in recipeIn) (string, error) {
		return fmt.Sprint(of, " ", in), nil
	})
	server.AddPrompt(s, server.Prompt{Name: of + ".hidden", Guards: hidden}, nothing[recipeIn])
	server.AddCompletion(s, server.Completion{Prompt: of + ".recipe", Argument: "salt"},
		func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			return []string{of, typed, others["grain"]}, nil
		})
	server.AddCompletion(s, server.Completion{Prompt: of + ".hidden", Argument: "salt"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{of}, nil
		})
	server.AddCompletion(s, server.Completion{Template: "app:" + of + "/{+path}", Argument: "path"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "a", typed + "b"}, nil
		})
}

// bakeryCalls are calls of what exists, of what does not, and of what is hidden, well
// formed and malformed. OWN is replaced by the names of each part of the bakery.
var bakeryCalls = []struct{ method, params string }{
	{mcp.MethodToolsCall, `{"name":"TOOL.order","arguments":{"loaves":2}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.order","arguments":{"loaves":20}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.order","arguments":{"loaves":0,"kind":"oat","x":1}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.order","arguments":[]}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.order"}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.fail","arguments":{"how":"badly"}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.fail","arguments":{"how":"protocol"}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.fail","arguments":{"how":"not found"}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.raw","arguments":{"x":[1, 2.50]}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.raw"}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.secret","arguments":{}}`},
	{mcp.MethodToolsCall, `{"name":"TOOL.none","arguments":{}}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/menu"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/shelf/top"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/shelf/bottom?limit=3"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/shelf/middle"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/shelf/bottom?limit=many"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/shelf/a/b"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/x/../y"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/secret"}`},
	{mcp.MethodResourcesRead, `{"uri":"app:OWN/broken"}`},
	{mcp.MethodPromptsGet, `{"name":"TOOL.recipe","arguments":{"grain":"rye"}}`},
	{mcp.MethodPromptsGet, `{"name":"TOOL.recipe","arguments":{"grain":"oat"}}`},
	{mcp.MethodPromptsGet, `{"name":"TOOL.recipe","arguments":{"grain":7}}`},
	{mcp.MethodPromptsGet, `{"name":"TOOL.recipe"}`},
	{mcp.MethodPromptsGet, `{"name":"TOOL.hidden","arguments":{"grain":"rye"}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"TOOL.recipe"},"argument":{"name":"salt","value":"1"},"context":{"arguments":{"grain":"rye"}}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"TOOL.recipe"},"argument":{"name":"grain","value":"s"}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"TOOL.recipe"},"argument":{"name":"sugar","value":""}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"TOOL.hidden"},"argument":{"name":"salt","value":""}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"app:OWN/{+path}"},"argument":{"name":"path","value":"x"}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"app:OWN/shelf/{shelf}{?limit}"},"argument":{"name":"shelf","value":""}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"app:OWN/shelf/{shelf}{?limit}"},"argument":{"name":"limit","value":""}}`},
}

// malformedCalls name nothing that could be looked up.
var malformedCalls = []struct{ method, params string }{
	{mcp.MethodToolsCall, `{}`}, {mcp.MethodToolsCall, `{"name":7}`}, {mcp.MethodToolsCall, `{"name":""}`},
	{mcp.MethodPromptsGet, `{"name":null}`}, {mcp.MethodPromptsGet, `{"name":"none"}`},
	{mcp.MethodResourcesRead, `{}`}, {mcp.MethodResourcesRead, `{"uri":[]}`}, {mcp.MethodResourcesRead, `{"uri":"app:none"}`},
	{mcp.MethodComplete, `{}`}, {mcp.MethodComplete, `{"ref":{"type":"ref/tool"},"argument":{"name":"x","value":""}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt"},"argument":{"name":"x","value":""}}`},
	{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"own.recipe"},"argument":{"name":"salt"}}`},
	{mcp.MethodToolsList, `{"cursor":"nonsense"}`}, {mcp.MethodToolsList, `{"cursor":7}`}, {mcp.MethodToolsList, `{"cursor":null}`},
	{"tools/bake", `{}`},
}

// TestObservableBehaviour compares lists, cursors, scopes, completions, the texts of
// errors, and which of several entries a name or URI selects, with those on file.
func TestObservableBehaviour(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var b strings.Builder
		s := newBakeries(t)
		if err := s.Start(t.Context()); err != nil { // a server that is starting declares more capabilities
			t.Fatal(err)
		}
		session := connectAs(t, s, era, "guest")
		fmt.Fprintf(&b, "capabilities %+v\n\n", capabilitiesText(session.Capabilities()))
		for _, of := range []struct{ own, tool string }{{"own", "own"}, {"child", "c_child"}, {"deep", "c_deep"}} {
			for _, c := range bakeryCalls {
				record(t, &b, session, c.method, strings.NewReplacer("OWN", of.own, "TOOL", of.tool).Replace(c.params))
			}
		}
		for _, c := range malformedCalls {
			record(t, &b, session, c.method, c.params)
		}
		for _, as := range []string{"guest", "staff"} {
			session := connectAs(t, s, era, as)
			for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
				fmt.Fprintf(&b, "as %s: ", as)
				for next := record(t, &b, session, method, `{}`); next != ""; {
					next = record(t, &b, session, method, `{"cursor":`+next+`}`)
				}
			}
		}
		for _, of := range []struct{ method, name string }{
			{mcp.MethodToolsCall, "own.fail"}, {mcp.MethodToolsCall, "c_child.fail"}, {mcp.MethodToolsCall, "c_deep.fail"},
			{mcp.MethodToolsCall, "c_deep.order"}, {mcp.MethodToolsCall, "none"}, {mcp.MethodPromptsGet, "own.recipe"}, {mcp.MethodPromptsGet, "c_deep.recipe"},
			{mcp.MethodResourcesRead, "app:own/shelf/top"}, {mcp.MethodResourcesRead, "app:own/shelf/x"}, {mcp.MethodResourcesRead, "app:own/x"},
			{mcp.MethodResourcesRead, "app:deep/shelf/top"}, {mcp.MethodResourcesSubscribe, "app:deep/shelf/x"}, {mcp.MethodComplete, "c_child.recipe"},
			{mcp.MethodComplete, "app:child/shelf/{shelf}{?limit}"}, {mcp.MethodToolsList, ""},
		} {
			fmt.Fprintf(&b, "scopes of %s %s: %q\n", of.method, of.name, s.Scopes(of.method, of.name))
		}
		golden := filepath.Join("testdata", "behaviour", fmt.Sprint(map[client.Era]string{client.Modern: "modern", client.Legacy: "legacy"}[era], ".txt"))
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
			t.Errorf("the server behaves differently (-want +got):\n%s", diff)
		}
	})
}

// record makes a call and writes down the answer. It returns the cursor of the next page.
func record(t *testing.T, b *strings.Builder, session *client.Session, method, params string) (next string) {
	t.Helper()
	result, err := raw(t, session, method, params)
	fmt.Fprintf(b, "%s %s\n", method, params)
	if err != nil {
		e := protocolError(t, err)
		fmt.Fprintf(b, "\terror %d %s %s\n\n", e.Code, e.Message, e.Data)
		return ""
	}
	fmt.Fprintf(b, "\t%s\n\n", result)
	_, after, found := strings.Cut(result, `"nextCursor":`)
	if !found {
		return ""
	}
	quoted, _, _ := strings.Cut(after[1:], `"`)
	return `"` + quoted + `"`
}

func capabilitiesText(c mcp.ServerCapabilities) string {
	text, err := c.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}
