package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
)

// hostileFile names a file with the text of a hostile server. It makes the test binary such a
// server.
const hostileFile = "INSPECT_TEST_HOSTILE"

// serveHostile serves standard input and output with a text wherever the protocol has one, and
// writes it to standard error and between the messages.
func serveHostile(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		os.Exit(1)
	}
	quoted, _ := json.Marshal(string(text)) // never fails
	fmt.Fprintf(os.Stderr, "%s\n", text)
	fmt.Printf("%s\n", strings.ReplaceAll(string(text), "\n", " "))
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &request) != nil || request.ID == nil || request.Method == "" {
			continue
		}
		for _, note := range []string{
			`{"method":"notifications/message","params":{"level":"error","logger":TEXT,"data":TEXT}}`,
			`{"method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":TEXT}}`,
			`{"method":"notifications/resources/updated","params":{"uri":TEXT}}`,
		} {
			fmt.Printf(`{"jsonrpc":"2.0",%s`+"\n", strings.ReplaceAll(note[1:], "TEXT", string(quoted)))
		}
		answer, ok := map[string]string{
			"initialize":               `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"logging":{}},"serverInfo":{"name":TEXT,"title":TEXT,"version":TEXT},"instructions":TEXT}`,
			"prompts/get":              `"error":{"code":-32000,"message":TEXT,"data":TEXT}`,
			"tools/list":               `"result":{"tools":[{"name":"a","title":TEXT,"description":TEXT,"inputSchema":{"type":"object","description":TEXT},"annotations":{"title":TEXT}},{"name":TEXT,"inputSchema":{"type":"object"}}]}`,
			"tools/call":               `"result":{"isError":true,"content":[{"type":"text","text":TEXT}],"structuredContent":{TEXT:TEXT},"_meta":{"x.example/y":TEXT}}`,
			"resources/list":           `"result":{"resources":[{"uri":"a:b","name":TEXT,"description":TEXT,"mimeType":TEXT}]}`,
			"prompts/list":             `"result":{"prompts":[{"name":"p","description":TEXT,"arguments":[{"name":TEXT,"description":TEXT}]}]}`,
			"resources/templates/list": `"result":{"resourceTemplates":[]}`,
			"ping":                     `"result":{}`,
		}[request.Method]
		if !ok {
			answer = `"error":{"code":-32601,"message":TEXT,"data":TEXT}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", request.ID, strings.ReplaceAll(answer, "TEXT", string(quoted)))
	}
}

// Whatever a server sends, standard output and standard error have visible characters only.
func TestHostileServerIsShownPlainly(t *testing.T) {
	const typed = "info\ntools\nresources\ntemplates\nprompts\ncall a\ncall evil__a\nread a:b\nprompt p\ncomplete prompt p x y\nwatch\nping\n\x1b[2J\n"
	self := child(t)[1]
	t.Setenv(asServer, "") // the child is another server
	texts := testsuites.HostileText(t)
	path := filepath.Join(t.TempDir(), "text")
	config := filepath.Join(t.TempDir(), "mcp.json")
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"evil": map[string]any{"command": self, "env": map[string]string{hostileFile: path, "GORACE": "atexit_sleep_ms=0"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{strings.Join(texts, "\n"), "\x1b[2J\x1b[1;1H\u202eFAKE\r\n\ndovetail: FAKE\u009b"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(hostileFile, path)
		for _, flags := range [][]string{
			{"-era", "legacy", "session", "--", self}, {"-era", "legacy", "-verbose", "session", "--", self},
			{"-config", config, "-verbose", "session"}, {"-config", config, "session"},
		} {
			var out, said bytes.Buffer
			err := run(t.Context(), flags, strings.NewReader(typed), &out, &said)
			if err != nil {
				t.Errorf("%q: %.500v", flags, err)
				printError(&said, err)
			}
			testsuites.WantPlainLines(t, out.String())
			testsuites.WantPlainLines(t, said.String())
			if !strings.Contains(out.String(), `\u001b[2J`) || said.Len() < 100 {
				t.Errorf("%q: printed %d and %d bytes:\n%s", flags, out.Len(), said.Len(), &said)
			}
			if verbose := slices.Contains(flags, "-verbose"); verbose != strings.Contains(said.String(), "→ {") {
				t.Errorf("%q: messages are shown: %t", flags, !verbose)
			}
			for line := range strings.Lines(said.String() + out.String()) {
				if strings.HasPrefix(line, "FAKE") || strings.HasPrefix(line, "dovetail: FAKE") {
					t.Errorf("%q: a line is %q", flags, line)
				}
			}
		}
	}
}

// An error is labelled on each line, plain and bounded.
func TestErrorsArePrintedPlainly(t *testing.T) {
	for _, text := range testsuites.HostileText(t) {
		var said bytes.Buffer
		printError(peertext.Screen(&said), errors.Join(errors.New("x"+text), errors.New(strings.Repeat(text, 1000))))
		testsuites.WantPlainLines(t, said.String())
		for line := range strings.Lines(said.String()) {
			if !strings.HasPrefix(line, "dovetail: ") {
				t.Errorf("a line is %q", line)
			}
		}
		if said.Len() > 6*6*maxError {
			t.Errorf("%d bytes are printed", said.Len())
		}
	}
}

// Questions of a server are visible, and no line of them begins as a line of this program does.
func TestHostileQuestions(t *testing.T) {
	for _, text := range testsuites.HostileText(t) {
		long := strings.Repeat(text+strings.Repeat(" ", 50)+"Send this? [y]es ", 20)
		form, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{
			"a" + text: map[string]any{"type": "string", "description": long, "title": text}, "b": map[string]any{"type": "string", "enum": []string{text + "!", "x"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range []*mcp.ElicitParams{
			{Message: text, RequestedSchema: form}, {Message: long, RequestedSchema: form},
			{Mode: mcp.ElicitURL, Message: long, URL: "https://example.com/" + text},
		} {
			var out bytes.Buffer
			p := &person{input: newLineReader(t.Context(), strings.NewReader("x\n\n\nx\n\n\nn\n"), &out), out: &out}
			_, _ = p.elicit(t.Context(), question) // the answers do not matter
			testsuites.WantPlainLines(t, out.String())
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "Send this?") && !strings.HasPrefix(line, "Send this? [y]es, [n]o, anything else cancels: ") {
					t.Errorf("a line is %q", line)
				}
			}
			if question.Mode == mcp.ElicitURL && !strings.Contains(out.String(), shownURL(question.URL)+"\n") {
				t.Errorf("the URL is incomplete in %q", &out)
			}
		}
	}
}

// Credentials of headers, URLs and variables are not printed, also if the server repeats them.
func TestCredentialsAreNotPrinted(t *testing.T) {
	const secret = "s3cret-0123456789"
	repeats := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_ = r.Write(w) // the client reports a missing response
	}))
	defer repeats.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	host := strings.TrimPrefix(repeats.URL, "http://")
	config := filepath.Join(t.TempDir(), "mcp.json")
	file := `{"mcpServers":{"web":{"url":"http://user:` + secret + `@` + host + `/mcp?key=` + secret + `","headers":{"X-Key":"` + secret + `"}},
		"child":{"command":"sh","args":["-c","echo $KEY >&2; exit 1"],"env":{"KEY":"` + secret + `"}}}}`
	if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"-header", "Authorization: Bearer " + secret, "tools", repeats.URL + "/mcp"}, {"-header", "X-Key: " + secret, "tools", repeats.URL + "/mcp?key=" + secret},
		{"-header", "X-Key: " + secret, "tools", "ws://" + host + "/ws?key=" + secret}, {"tools", "http://user:" + secret + "@" + host + "/mcp"},
		{"tools", "http://user:" + secret + "@127.0.0.1:1/mcp"}, {"tools", "ws://user:" + secret + "@" + host}, {"tools", "ftp://user:" + secret + "@" + host},
		{"tools", "http://user:" + secret + "@[/mcp"}, {"-config", config, "info"}, {"-config", config, "call", "web__x"},
	} {
		for _, verbose := range []bool{false, true} {
			if verbose {
				line = append([]string{"-verbose"}, line...)
			}
			var out, said bytes.Buffer
			if err := run(t.Context(), line, strings.NewReader(""), &out, &said); err != nil {
				printError(&said, err)
			}
			if strings.Contains(out.String()+said.String(), "s3cret") {
				t.Errorf("%q prints %s%s", line, &out, &said)
			}
		}
	}
}
