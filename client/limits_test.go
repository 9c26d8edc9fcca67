package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// wantLimit checks that an error names a limit.
func wantLimit(t *testing.T, err error, limit string) {
	t.Helper()
	exceeded, ok := errors.AsType[*mcp.LimitError](err)
	if !ok || exceeded.Limit != limit || !strings.Contains(err.Error(), limit) {
		t.Errorf("the error is %v, want a *LimitError for %s", err, limit)
	}
}

// listMembers are the members with the entries of each list.
var listMembers = map[string]string{
	mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts",
	mcp.MethodResourcesList: "resources", mcp.MethodResourceTemplatesList: "resourceTemplates",
}

// readList reads a list of a server that returns the pages, each with the number of the next one as
// cursor. It returns the last error.
func readList(t *testing.T, limits client.Limits, method string, pages ...string) error {
	t.Helper()
	_, _, err := readEntries(t, limits, method, pages...)
	return err
}

// readEntries is readList, and returns the number of entries and the log.
func readEntries(t *testing.T, limits client.Limits, method string, pages ...string) (entries int, log string, err error) {
	t.Helper()
	var logged strings.Builder
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		member := listMembers[req.Method]
		if member == "" {
			return nil
		}
		page, next := 0, ""
		_, _ = fmt.Sscanf(strings.Trim(string(req.Member("cursor")), `"0`), "%d", &page)
		if page+1 < len(pages) {
			next = fmt.Sprintf(`,"nextCursor":"%0100d"`, page+1)
		}
		return []string{result(req, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","`+member+`":[`+pages[page]+`]`+next+`}`)}
	}), client.Options{Limits: limits, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	count := func(failed error) {
		if err = failed; err == nil {
			entries++
		}
	}
	switch method {
	case mcp.MethodToolsList:
		for _, err := range session.Tools(t.Context(), nil) {
			count(err)
		}
	case mcp.MethodPromptsList:
		for _, err := range session.Prompts(t.Context(), nil) {
			count(err)
		}
	case mcp.MethodResourcesList:
		for _, err := range session.Resources(t.Context(), nil) {
			count(err)
		}
	case mcp.MethodResourceTemplatesList:
		for _, err := range session.Templates(t.Context(), nil) {
			count(err)
		}
	}
	return entries, logged.String(), err
}

// checkEntry checks a limit of one entry: with the text at the limit, and with one byte more, where
// the entry is skipped and others are not. %s in the entry is replaced by the text.
func checkEntry(t *testing.T, limit string, limits client.Limits, most int, method, entry string) {
	t.Helper()
	if err := readList(t, limits, method, strings.Replace(entry, "%s", strings.Repeat("x", most), 1)); err != nil {
		t.Errorf("%s at the limit: %v", method, err)
	}
	longer, small := strings.Replace(entry, "%s", strings.Repeat("x", most+1), 1), strings.Replace(entry, "%s", "x", 1)
	if entries, log, err := readEntries(t, limits, method, small+","+longer, longer+","+small); entries != 2 || err != nil || strings.Count(log, limit) != 2 {
		t.Errorf("%s with 2 entries of 4 beyond the limit: %d entries, error %v, log %s; want 2 entries and 2 warnings with the name of the limit", method, entries, err, log)
	}
	no := limits
	no.TextBytes, no.NameBytes, no.URIBytes, no.TemplateBytes, no.SchemaBytes, no.EntryBytes = -1, -1, -1, -1, -1, -1
	if err := readList(t, no, method, strings.Replace(entry, "%s", strings.Repeat("x", most+1), 1)); err != nil {
		t.Errorf("%s without a limit: %v", method, err)
	}
}

func TestLimitTextBytes(t *testing.T) {
	for method, entry := range map[string]string{
		mcp.MethodToolsList: `"name":"a","inputSchema":{}`, mcp.MethodPromptsList: `"name":"a"`,
		mcp.MethodResourcesList: `"name":"a","uri":"a:b"`, mcp.MethodResourceTemplatesList: `"name":"a","uriTemplate":"a:{b}"`,
	} {
		checkEntry(t, "TextBytes", client.Limits{}, 64<<10, method, `{`+entry+`,"description":"%s"}`)
		checkEntry(t, "TextBytes", client.Limits{TextBytes: 10}, 10, method, `{`+entry+`,"title":"%s"}`)
	}
	checkEntry(t, "TextBytes", client.Limits{}, 64<<10, mcp.MethodResourcesList, `{"name":"%s","uri":"a:b"}`)
}

func TestLimitNameBytes(t *testing.T) {
	checkEntry(t, "NameBytes", client.Limits{}, 256, mcp.MethodToolsList, `{"name":"%s","inputSchema":{}}`)
	checkEntry(t, "NameBytes", client.Limits{}, 256, mcp.MethodPromptsList, `{"name":"%s"}`)
}

func TestLimitURIBytes(t *testing.T) {
	checkEntry(t, "URIBytes", client.Limits{}, 64<<10-2, mcp.MethodResourcesList, `{"name":"a","uri":"a:%s"}`)
	var changed atomic.Int64
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		return []string{
			notification(mcp.NotificationResourceUpdated, `{"uri":"a:`+strings.Repeat("x", 64<<10)+`"}`),
			notification(mcp.NotificationResourceUpdated, `{"uri":"a:b"}`), result(req, text("well")),
		}
	}), client.Options{OnChange: func(_ context.Context, change mcp.Change) { changed.Add(int64(len(change.URI))) }})
	if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	session.Close()
	if n := changed.Load(); n > 3 {
		t.Errorf("changes of URIs of %d bytes are reported", n)
	}
}

func TestLimitTemplateBytes(t *testing.T) {
	checkEntry(t, "TemplateBytes", client.Limits{}, 8<<10-5, mcp.MethodResourceTemplatesList, `{"name":"a","uriTemplate":"a:{x}%s"}`)
}

func TestLimitSchemaBytes(t *testing.T) {
	const empty = `{"title":""}`
	for _, member := range []string{"inputSchema", "outputSchema"} {
		checkEntry(t, "SchemaBytes", client.Limits{}, 256<<10-len(empty), mcp.MethodToolsList, `{"name":"a","`+member+`":{"title":"%s"}}`)
	}
}

func TestLimitEntryBytes(t *testing.T) {
	const empty = `{"name":"a","_meta":{"m":""}}`
	checkEntry(t, "EntryBytes", client.Limits{}, 1<<20-len(empty), mcp.MethodPromptsList, `{"name":"a","_meta":{"m":"%s"}}`)
}

// repeated returns n entries.
func repeated(n int, entry string) string {
	return strings.TrimSuffix(strings.Repeat(entry+",", n), ",")
}

func TestLimitListEntries(t *testing.T) {
	const entry = `{"name":"a"}`
	if err := readList(t, client.Limits{}, mcp.MethodPromptsList, repeated(4000, entry), repeated(6000, entry)); err != nil {
		t.Error(err)
	}
	wantLimit(t, readList(t, client.Limits{}, mcp.MethodPromptsList, repeated(4000, entry), repeated(6001, entry)), "ListEntries")
}

func TestLimitTemplates(t *testing.T) {
	const entry = `{"name":"a","uriTemplate":"a:{b}"}`
	if err := readList(t, client.Limits{}, mcp.MethodResourceTemplatesList, repeated(256, entry)); err != nil {
		t.Error(err)
	}
	wantLimit(t, readList(t, client.Limits{}, mcp.MethodResourceTemplatesList, repeated(256, entry), entry), "Templates")
}

func TestLimitListBytes(t *testing.T) {
	page := repeated(30, `{"name":"a","description":"`+strings.Repeat("x", 60_000)+`"}`) // 1.8 MB
	if err := readList(t, client.Limits{}, mcp.MethodPromptsList, page, page, page, page); err != nil {
		t.Error(err)
	}
	wantLimit(t, readList(t, client.Limits{}, mcp.MethodPromptsList, page, page, page, page, page), "ListBytes")
}

func TestLimitCursorBytes(t *testing.T) {
	if err := readList(t, client.Limits{CursorBytes: 102}, mcp.MethodPromptsList, "", ""); err != nil {
		t.Error(err)
	}
	wantLimit(t, readList(t, client.Limits{CursorBytes: 101}, mcp.MethodPromptsList, "", ""), "CursorBytes")
}

func TestLimitCompletionValues(t *testing.T) {
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodComplete {
			return nil
		}
		return []string{result(req, `{"resultType":"complete","completion":{"values":[`+repeated(500, `"x"`)+`]}}`)}
	}), client.Options{})
	values, err := session.CompletePrompt(t.Context(), "p", "a", "", nil, nil)
	if err != nil || len(values.Values) != 100 || !values.HasMore {
		t.Errorf("%v, %v; want 100 values and more", values, err)
	}
}

func TestLimitHandshakeBytes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for size, want := range map[int]string{100 << 10: "", 600 << 10: "HandshakeBytes"} {
			s := newServer(&server.Options{Instructions: strings.Repeat("x", size)})
			session, err := client.Connect(t.Context(), transporttests.Dialer(t, s), &client.Options{Era: era})
			switch {
			case want != "":
				wantLimit(t, err, want)
			case err != nil:
				t.Error(err)
			}
			if err == nil {
				session.Close()
			}
		}
	})
}

// asksForEver is a server of 2026-07-28 that answers each call with n questions.
func asksForEver(n int) script {
	var questions []string
	for i := range n {
		questions = append(questions, fmt.Sprintf(`"q%d":{"method":"roots/list"}`, i))
	}
	return func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		return []string{result(req, `{"resultType":"input_required","requestState":"s","inputRequests":{`+strings.Join(questions, ",")+`}}`)}
	}
}

func noRoots(asked *atomic.Int64) func(context.Context) ([]mcp.Root, error) {
	return func(context.Context) ([]mcp.Root, error) {
		asked.Add(1)
		return nil, nil
	}
}

func TestLimitRounds(t *testing.T) {
	var asked atomic.Int64
	session := connect(t, asksForEver(1), client.Options{Roots: noRoots(&asked)})
	_, err := session.CallTool(t.Context(), "x", nil, nil)
	wantLimit(t, err, "Rounds")
	if n := asked.Load(); n != 10 {
		t.Errorf("%d questions were answered, want 10", n)
	}
}

func TestLimitQuestionBurst(t *testing.T) {
	for n, want := range map[int]string{2: "Rounds", 30: "QuestionBurst"} {
		var asked atomic.Int64
		session := connect(t, asksForEver(n), client.Options{
			Roots: noRoots(&asked), Limits: client.Limits{Rounds: 3, QuestionBurst: 10}, Logger: slog.New(slog.DiscardHandler),
		})
		_, err := session.CallTool(t.Context(), "x", nil, nil)
		if want == "Rounds" {
			wantLimit(t, err, want)
		} else if limit, ok := errors.AsType[*mcp.LimitError](err); !ok || !strings.HasPrefix(limit.Limit, "Question") {
			t.Errorf("%d questions: %v", n, err)
		}
		if got := asked.Load(); got > 10 {
			t.Errorf("%d of %d questions were answered, want 10 at most", got, n)
		}
	}
}

// A server that asks again and again gets an error that it may retry, and not more answers than the
// limits permit.
func TestLimitQuestionsPerMinute(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				var refusal atomic.Pointer[error]
				server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ noServer) (int, error) {
					roots, err := server.Roots(r, "roots")
					if err != nil {
						refusal.Store(&err)
					}
					return len(roots), err
				})
				var asked atomic.Int64
				session := connect(t, transport.Pipe(s), client.Options{
					Era: era, Roots: noRoots(&asked), Limits: client.Limits{QuestionsPerMinute: 60, QuestionBurst: 20}, Logger: slog.New(slog.DiscardHandler),
				})
				loop := func(calls int) (err error) {
					for range calls {
						if _, failed := session.CallTool(t.Context(), "ask", nil, nil); failed != nil {
							err = failed
						}
					}
					return err
				}
				if err := loop(20); err != nil {
					t.Fatal(err)
				}
				err := loop(50)
				if n := asked.Load(); n != 20 {
					t.Errorf("%d questions were answered, want 20", n)
				}
				if era == client.Modern {
					wantLimit(t, err, "QuestionsPerMinute")
				} else if refused, ok := errors.AsType[*jsonrpc.Error](*refusal.Load()); !ok || refused.Code != jsonrpc.Busy {
					t.Errorf("the server gets the error %v, want one with the code %d", *refusal.Load(), jsonrpc.Busy)
				}
				<-time.After(10 * time.Second) // virtual
				_ = loop(50)
				if n := asked.Load(); n != 30 {
					t.Errorf("%d questions were answered after 10 s, want 30", n)
				}
			})
		})
	}
}

func TestLimitQuestionBytes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in struct{ Size int }) (string, error) {
			_, err := server.Elicit[preferences](r, "q", strings.Repeat("x", in.Size))
			return "", err
		})
		shown := 0
		session := connect(t, transporttests.Dialer(t, s), client.Options{
			Era: era, Logger: slog.New(slog.DiscardHandler),
			Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				shown = len(p.Message)
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			},
		})
		for size, want := range map[int]int{1000 << 10: 1000 << 10, 1 << 20: 0} {
			shown = 0
			_, err := session.CallTool(t.Context(), "ask", map[string]int{"Size": size}, nil)
			if shown != want {
				t.Errorf("a question of %d bytes is shown with %d (%v)", size, shown, err)
			}
			if want == 0 && era == client.Modern {
				wantLimit(t, err, "QuestionBytes")
			}
		}
	})
}

// A limit that is not set has its default, a negative one does not limit, and others are kept.
func TestLimitsWithDefaults(t *testing.T) {
	defaults := client.Limits{
		HandshakeBytes: 512 << 10, Pages: 64, ListEntries: 10_000, ListBytes: 8 << 20, CatalogBytes: 16 << 20, Templates: 256, CursorBytes: 128 << 10,
		EntryBytes: 1 << 20, SchemaBytes: 256 << 10, TextBytes: 64 << 10, NameBytes: 256, URIBytes: 64 << 10, TemplateBytes: 8 << 10, CompletionValues: 100,
		Rounds: 10, QuestionsPerMinute: 300, QuestionBurst: 100, QuestionBytes: 1 << 20, QueuedNotifications: 1024, QueuedBytes: 1 << 20, Reconnects: 10,
	}
	if got := (client.Limits{}).WithDefaults(); got != defaults {
		t.Errorf("the defaults are %+v, want %+v", got, defaults)
	}
	for value, want := range map[int]int{-1: math.MaxInt, math.MinInt: math.MaxInt, 1: 1, 7: 7} {
		var limits client.Limits
		fields := reflect.ValueOf(&limits).Elem()
		for _, field := range fields.Fields() {
			field.SetInt(int64(value))
		}
		limits = limits.WithDefaults()
		for field, got := range fields.Fields() {
			if int(got.Int()) != want {
				t.Errorf("%s of %d becomes %d, want %d", field.Name, value, got.Int(), want)
			}
		}
	}
}

// wantWithin checks that err is nil if limit is "", and otherwise that it is a *mcp.LimitError with the limit and its
// value.
func wantWithin(t *testing.T, what string, err error, limit string, most int) {
	t.Helper()
	if limit == "" {
		if err != nil {
			t.Errorf("%s: %v, want no error", what, err)
		}
		return
	}
	if e, ok := errors.AsType[*mcp.LimitError](err); !ok || e.Limit != limit || e.Max != most {
		t.Errorf("%s: %v, want a *LimitError for %s of %d", what, err, limit, most)
	}
}

func TestCheckCount(t *testing.T) {
	for _, test := range []struct {
		kind      mcp.Kind
		templates int
		entries   int
		limit     string
		most      int
	}{
		{mcp.KindTool, 3, 10, "", 0},
		{mcp.KindTool, 3, 11, "ListEntries", 10},
		{mcp.KindResource, 3, 10, "", 0},
		{mcp.KindResourceTemplate, 3, 3, "", 0},
		{mcp.KindResourceTemplate, 3, 4, "Templates", 3},
		{mcp.KindResourceTemplate, 9, 10, "Templates", 9},
		{mcp.KindResourceTemplate, 10, 10, "", 0},
		{mcp.KindResourceTemplate, 10, 11, "ListEntries", 10},
		{mcp.KindResourceTemplate, 11, 11, "ListEntries", 10},
	} {
		limits := client.Limits{ListEntries: 10, Templates: test.templates}.WithDefaults()
		wantWithin(t, fmt.Sprintf("%+v", test), limits.CheckCount(test.kind, test.entries), test.limit, test.most)
	}
}

func TestCheckPage(t *testing.T) {
	limits := client.Limits{Pages: 3, ListBytes: 100, CursorBytes: 10}.WithDefaults()
	for _, test := range []struct {
		pages, bytes int
		cursor       string
		limit        string
		most         int
	}{
		{1, 100, "", "", 0},
		{1, 101, "", "ListBytes", 100},
		{1, 101, `"123456789"`, "ListBytes", 100},
		{1, 100, `"12345678"`, "", 0},
		{1, 100, `"123456789"`, "CursorBytes", 10},
		{2, 100, `"12345678"`, "", 0},
		{3, 100, `"12345678"`, "Pages", 3},
		{4, 100, `"12345678"`, "Pages", 3},
		{3, 100, `"123456789"`, "CursorBytes", 10},
		{3, 100, "", "", 0}, // the last page
		{3, 100, "null", "", 0},
		{4, 100, "null", "", 0},
		{1, 100, "12345678901", "", 0}, // it is no cursor
	} {
		var cursor json.RawMessage
		if test.cursor != "" {
			cursor = json.RawMessage(test.cursor)
		}
		wantWithin(t, fmt.Sprintf("%+v", test), limits.CheckPage(test.pages, test.bytes, cursor), test.limit, test.most)
	}
}

// Each member of each kind has its limit. Texts are measured without quotes, and other values as they are.
func TestCheckEntry(t *testing.T) {
	limits := client.Limits{EntryBytes: 200, SchemaBytes: 60, TextBytes: 50, NameBytes: 20, URIBytes: 40, TemplateBytes: 30}.WithDefaults()
	named := []mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindEvent}
	others := []mcp.Kind{mcp.KindResource, mcp.KindResourceTemplate}
	all := append(slices.Clone(named), others...)
	for _, test := range []struct {
		kinds  []mcp.Kind
		member string
		limit  string
		most   int
	}{
		{named, "name", "NameBytes", 20},
		{others, "name", "TextBytes", 50},
		{all, "title", "TextBytes", 50},
		{all, "description", "TextBytes", 50},
		{all, "uri", "URIBytes", 40},
		{all, "uriTemplate", "TemplateBytes", 30},
		{all, "inputSchema", "SchemaBytes", 60},
		{all, "outputSchema", "SchemaBytes", 60},
		{all, "payloadSchema", "SchemaBytes", 60},
	} {
		for _, kind := range test.kinds {
			for _, value := range []string{`"%s"`, `{"":"%s"}`} {
				for more, limit := range []string{"", test.limit} {
					n := test.most + more
					if value != `"%s"` {
						n -= len(`{"":""}`)
					}
					entry := fmt.Sprintf(`{"x":1,%q:`+value+`,"y":2}`, test.member, strings.Repeat("a", n))
					wantWithin(t, fmt.Sprint(kind, " ", entry), limits.CheckEntry(kind, json.RawMessage(entry)), limit, test.most)
				}
			}
		}
	}
	for more, limit := range []string{"", "EntryBytes"} {
		const empty = `{"x":"","y":""}`
		entry := fmt.Sprintf(`{"x":%q,"y":%q}`, strings.Repeat("a", 100), strings.Repeat("a", 100-len(empty)+more))
		wantWithin(t, entry, limits.CheckEntry(mcp.KindTool, json.RawMessage(entry)), limit, 200)
	}
	for _, entry := range []string{"[]", `{"name"`, `{"name":}`, ""} {
		if err := limits.CheckEntry(mcp.KindTool, json.RawMessage(entry)); err == nil {
			t.Errorf("%q has no error", entry)
		}
	}
}

// The description of a server may have exactly the size of the limit.
func TestLimitHandshakeBytesIsExact(t *testing.T) {
	for more, limit := range []string{"", "HandshakeBytes"} {
		most := len(offersEvents) - more
		session, err := client.Connect(t.Context(), script(func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodDiscover {
				return nil
			}
			return []string{result(req, offersEvents)}
		}), &client.Options{Era: client.Modern, Limits: client.Limits{HandshakeBytes: most}})
		if err == nil {
			session.Close()
		}
		wantWithin(t, fmt.Sprintf("%d bytes of %d", len(offersEvents), most), err, limit, most)
	}
}

// A blocked handler gets the newest log messages within the limits.
func flood(t *testing.T, limits client.Limits, size int) (received []string) {
	t.Helper()
	const sent = 200
	release, began := make(chan struct{}), make(chan struct{}, 1)
	session := connect(t, script(func(req *jsonrpc.Request) (frames []string) {
		if req.Method != mcp.MethodToolsCall {
			return nil
		}
		for i := range sent {
			frames = append(frames, notification(mcp.NotificationMessage, fmt.Sprintf(`{"level":"error","data":%d,"x":"%s"}`, i, strings.Repeat("x", size))))
		}
		return append(frames, result(req, text("well")))
	}), client.Options{Era: client.Legacy, Limits: limits, OnLog: func(_ context.Context, message *mcp.LoggingMessageParams) {
		select {
		case began <- struct{}{}:
		default:
		}
		<-release
		received = append(received, string(message.Data))
		if string(message.Data) == fmt.Sprint(sent-1) {
			close(began)
		}
	}})
	if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
		t.Fatal(err)
	}
	close(release)
	for range began {
	}
	return received
}

func TestLimitQueuedNotifications(t *testing.T) {
	if got := len(flood(t, client.Limits{QueuedNotifications: 10}, 1)); got > 20 {
		t.Errorf("%d messages waited, want 10 and those that were being handled", got)
	}
}

func TestLimitQueuedBytes(t *testing.T) {
	if got := len(flood(t, client.Limits{}, 100<<10)); got > 22 {
		t.Errorf("%d messages of 100 KiB waited, want 10 and those that were being handled", got)
	}
}

func TestLimitReconnects(t *testing.T) {
	for want, opts := range map[int32]client.Options{
		1 + 3: {Limits: client.Limits{Reconnects: 3}}, 1 + 10: {}, 1: {NoReconnect: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			dialer := &breaker{server: newServer(nil)}
			session := connect(t, dialer, opts)
			dialer.refuse.Store(true)
			dialer.cut()
			<-session.Done()
			if n := dialer.dials.Load(); n != want {
				t.Errorf("%d connections were opened, want %d", n, want)
			}
		})
	}
}

// A client passes the whole URL of a question to its handler, and does not open it.
func TestURLsAreShownAndNotOpened(t *testing.T) {
	var opened atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { opened.Add(1) }))
	defer web.Close()
	url := web.URL + "/pay?" + strings.Repeat("a=1&", 1000) + "end=1"
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "pay"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
		return "paid", server.ElicitURL(r, "pay", "Pay here.", url)
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		shown := ""
		session := connect(t, transporttests.Dialer(t, s), client.Options{Era: era, ElicitURLs: true, Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			shown = p.URL
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}})
		if _, err := session.CallTool(t.Context(), "pay", nil, nil); err != nil || shown != url {
			t.Errorf("the URL is %.100q, %v", shown, err)
		}
	})
	if n := opened.Load(); n > 0 {
		t.Errorf("the URL was opened %d times", n)
	}
}

// The operator reads why a handler has failed. The server does not.
func TestFailuresOfHandlersAreLogged(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var logged strings.Builder
		session := connect(t, transporttests.Dialer(t, newElicitServer()), client.Options{
			Era: era, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Roots: func(context.Context) ([]mcp.Root, error) { return nil, errors.New("the disk is away") },
		})
		result, err := session.CallTool(t.Context(), "look", nil, nil)
		if !strings.Contains(logged.String(), "the disk is away") || !strings.Contains(logged.String(), mcp.MethodRootsList) {
			t.Errorf("the log is %q", logged.String())
		}
		if era == client.Legacy && strings.Contains(fmt.Sprint(result, err), "disk") {
			t.Errorf("the server knows: %v, %v", result, err)
		}
	})
}

func TestEraString(t *testing.T) {
	if got := fmt.Sprint(client.Auto, client.Modern, client.Legacy, client.Era(7)); got != "auto modern legacy Era(7)" {
		t.Error(got)
	}
}

// A log message without params is skipped, with and without a handler of changes. One that is
// larger than the queue does not remove the others.
func TestEmptyLogMessage(t *testing.T) {
	for name, onChange := range map[string]func(context.Context, mcp.Change){
		"only OnLog": nil,
		"both":       func(_ context.Context, c mcp.Change) { t.Errorf("OnChange is called with %v", c) },
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			session := connect(t, script(func(req *jsonrpc.Request) []string {
				if req.Method != mcp.MethodToolsCall {
					return nil
				}
				return []string{
					`{"jsonrpc":"2.0","method":"notifications/message"}`,
					notification(mcp.NotificationMessage, `{"level":"error","data":"next"}`),
					notification(mcp.NotificationMessage, `{"level":"error","data":"`+strings.Repeat("x", 2<<20)+`"}`),
					result(req, text("well")),
				}
			}), client.Options{Era: client.Legacy, OnChange: onChange, OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) { got <- string(m.Data) }})
			if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
				t.Fatal(err)
			}
			if data := waittest.Receive(t, "the message", got); data != `"next"` {
				t.Errorf("the message is %.60s", data)
			}
		})
	}
}
