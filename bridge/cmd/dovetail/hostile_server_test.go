package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// hostileLists makes the test binary a server of hostileServers, which the value names.
const hostileLists = "INSPECT_TEST_HOSTILE_LISTS"

// hostileText has escape sequences of terminals and characters that are invisible. Quoted as JSON it has them without
// escapes where JSON permits that.
const hostileText = "\x1b]0;title\x07\x1b[2J\x1b[1;31m\r\u009b31m\u202e\u200bFAKE\ndovetail: FAKE"

// A hostileServer answers requests with texts and lists that are meant to exhaust or mislead its client.
type hostileServer struct {
	// page returns the entries of a page of a list, without brackets, and whether there is another page.
	page func(kind string, page int) (entries string, more bool)
	// result is the text of each result that is no list.
	result func() string
}

var hostileServers = map[string]hostileServer{
	"odd":     {oddPage, func() string { return strings.Repeat(hostileText, 1000) }},
	"deep":    {deepPage, func() string { return "" }},
	"endless": {endlessPage, func() string { return strings.Repeat("r", 17<<20) }},
}

// peakFile names the file to which the test binary, as dovetail itself, writes its peak memory at its end. The resources
// that the kernel reports to the parent include the memory of the parent, and of servers.
const peakFile = "INSPECT_TEST_PEAK"

func writePeak(path string) {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(path, regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1], 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// oddPage returns lists that a client can read: 10,000 tools and 200 other entries, among them some with escape sequences, names with paths,
// equal names, long names, long descriptions and deep schemas.
func oddPage(kind string, page int) (entries string, more bool) {
	if page > 0 {
		return "", false
	}
	long, deep := strings.Repeat("n", 120_000), deepSchema(450)
	object := `{"type":"object","properties":{"` + long + `":{"type":"string","enum":["a","b"],"description":` + quote(hostileText) + `}}}`
	list := []string{
		entryOf(kind, "plain", "A plain entry.", `{"type":"object"}`),
		entryOf(kind, hostileText, hostileText, `{"type":"object","description":`+quote(hostileText)+`,"properties":{`+quote(hostileText)+`:{}}}`),
		entryOf(kind, "titled", hostileText, object), entryOf(kind, "../../../escaped", "A path.", deep), entryOf(kind, "/tmp/escaped", "A path.", object),
		entryOf(kind, "twin", "A twin.", deep), entryOf(kind, "twin", "A twin.", object),
		entryOf(kind, "large", strings.Repeat("d", 1<<20), `{"type":"object"}`),
	}
	for i := range 4 {
		list = append(list, entryOf(kind, fmt.Sprint(long, i), hostileText, object))
	}
	most := 200
	if kind == "tools" {
		most = 10_000
	}
	for i := len(list); i < most; i++ {
		list = append(list, entryOf(kind, fmt.Sprint("name", i), "One of many.", `{"type":"object","properties":{"a":{"type":"string"}}}`))
	}
	return strings.Join(list, ","), false
}

// deepPage returns lists that nest deeper than any message may.
func deepPage(kind string, _ int) (entries string, more bool) {
	return entryOf(kind, "plain", deepSchema(1000), deepSchema(1000)), false
}

func deepSchema(depth int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, depth) + "{}" + strings.Repeat("}}", depth)
}

// endlessPage returns tools page after page. The other lists have one entry, which is large.
func endlessPage(kind string, page int) (entries string, more bool) {
	return entryOf(kind, fmt.Sprint(page, hostileText), strings.Repeat("d", 1<<20), `{"type":"object"}`), kind == "tools"
}

func entryOf(kind, name, description, schema string) string {
	entry := `{"name":` + quote(name) + `,"title":` + quote(name) + `,"description":` + quote(description)
	switch kind {
	case "tools":
		entry += `,"inputSchema":` + schema + `,"outputSchema":` + schema
	case "prompts":
		entry += `,"arguments":[{"name":` + quote(name) + `,"description":` + quote(description) + `}]`
	case "resources":
		entry += `,"uri":` + quote("file:///"+name)
	case "resourceTemplates":
		entry += `,"uriTemplate":` + quote("file:///"+name+"{x}")
	}
	return entry + "}"
}

// quote returns a JSON string that escapes only what it must.
func quote(text string) string {
	isEscaped := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }
	if strings.IndexFunc(text, isEscaped) < 0 { // an encoder takes longer
		return `"` + text + `"`
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // never fails
	return strings.TrimSuffix(b.String(), "\n")
}

// answer writes the answer to a request, on one line.
func (h hostileServer) answer(w io.Writer, request []byte) {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Cursor string `json:"cursor"`
		} `json:"params"`
	}
	if json.Unmarshal(request, &r) != nil || r.ID == nil {
		return
	}
	page := len(r.Params.Cursor)
	lists := map[string]string{
		mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts", mcp.MethodResourcesList: "resources",
		mcp.MethodResourceTemplatesList: "resourceTemplates",
	}
	text := func() string { return quote(h.result()) }
	result := `"error":{"code":-32601,"message":` + quote(hostileText) + `}`
	switch kind := lists[r.Method]; {
	case kind != "":
		entries, more := h.page(kind, page)
		cursor := ""
		if more {
			cursor = `,"nextCursor":"` + strings.Repeat("c", page+1) + `"`
		}
		result = `"result":{"` + kind + `":[` + entries + `]` + cursor + `}`
	case r.Method == mcp.MethodInitialize:
		result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}},"serverInfo":{"name":` +
			quote(hostileText) + `,"version":` + quote(hostileText) + `},"instructions":` + quote(strings.Repeat(hostileText, 1000)) + `}`
	case r.Method == mcp.MethodToolsCall:
		result = `"result":{"content":[{"type":"text","text":` + text() + `}]}`
	case r.Method == mcp.MethodResourcesRead:
		result = `"result":{"contents":[{"uri":"file:///plain","text":` + text() + `}]}`
	case r.Method == mcp.MethodPromptsGet:
		result = `"result":{"messages":[{"role":"user","content":{"type":"text","text":` + text() + `}}]}`
	case r.Method == mcp.MethodComplete:
		result = `"result":{"completion":{"values":[` + text() + `]}}`
	case r.Method == mcp.MethodPing, r.Method == mcp.MethodResourcesSubscribe:
		result = `"result":{}`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", r.ID, result)
}

// serve serves one client over its standard streams.
func (h hostileServer) serve(in io.Reader, out io.Writer) {
	fmt.Fprintln(os.Stderr, hostileText)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		h.answer(out, lines.Bytes())
	}
}

// listen serves HTTP and returns the URL.
func (h hostileServer) listen(t *testing.T) string {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var answer strings.Builder
		if h.answer(&answer, body); answer.Len() == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer.String()) // the client may have gone
	}))
	t.Cleanup(served.Close)
	return served.URL
}
