package search_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/transport"
)

// office has the tools of several servers.
var office = []string{
	`{"name":"github__create_issue","description":"Opens a new issue in a repository.","inputSchema":{"type":"object","properties":{"repo":{"type":"string","description":"owner/name"},"title":{},"body":{}}}}`,
	`{"name":"github__create_issue_comment","description":"Writes a comment below an issue.","inputSchema":{"type":"object","properties":{"repo":{},"issueNumber":{},"body":{}}}}`,
	`{"name":"github__listPullRequests","description":"Lists what waits to be merged.","inputSchema":{"type":"object","properties":{"repo":{},"state":{"description":"open, closed or all"}}}}`,
	`{"name":"files__read_file","title":"Read a file","description":"Returns what a file contains.","inputSchema":{"type":"object","properties":{"path":{"description":"where it is, absolute"}}}}`,
	`{"name":"files__search","description":"Finds files by their names.","inputSchema":{"type":"object","properties":{"pattern":{"description":"a glob such as *.go"}}}}`,
	`{"name":"mail__send","description":"Sends an e-mail to one or more people.","inputSchema":{"type":"object","properties":{"to":{"description":"addresses"},"subject":{},"attachments":{"description":"paths of files"}}}}`,
	`{"name":"weather","description":"天気予報を調べます。","inputSchema":{"type":"object"}}`,
	`{"name":"bare"}`,
}

func TestSearch(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, newSource(office...)), &client.Options{Era: era})
		for _, test := range []struct{ query, want string }{
			{"create issue", "github__create_issue github__create_issue_comment"},
			{"comment on an issue", "github__create_issue_comment"},
			{"pull requests", "github__listPullRequests"},
			{"listpullrequests", "github__listPullRequests"},
			{"PULL-REQUEST", "github__listPullRequests"},
			{"read files", "files__read_file files__search"},
			{"file", "files__read_file"},
			{"glob", "files__search"},
			{"attachment", "mail__send"},
			{"subject", "mail__send"},
			{"issue number", "github__create_issue_comment"},
			{"files__search", "files__search"},
			{"天気", "weather"},
			{"bare", "bare"},
			{"creating the issues", "github__create_issue github__create_issue_comment"},
			{"atta", "mail__send"}, // attachments
			{"what", "files__read_file github__listPullRequests"},
			{"xyzzy", ""},
			{"\u0000\ufffd �", "github__create_issue"}, // no word
		} {
			got := foundNames(t, session, test.query)
			if !strings.HasPrefix(got+" ", test.want+" ") {
				t.Errorf("%q finds %q, want %q first", test.query, got, test.want)
			}
		}
		for _, test := range []struct{ arguments, want string }{
			{`{"query":"","limit":10}`, "github__create_issue github__create_issue_comment github__listPullRequests files__read_file files__search mail__send weather bare"},
			{`{"query":" ? ","limit":2}`, "github__create_issue github__create_issue_comment"},
			{`{"query":"","prefix":"files__"}`, "files__read_file files__search"},
			{`{"query":"issue","prefix":"files__"}`, ""},
			{`{"query":"repo","prefix":"github__","limit":1}`, "github__create_issue"},
			{`{"query":"what is a glob"}`, "files__search"}, // without stop words
			{`{"query":"att"}`, ""},
			{`{"query":"weather","prefix":null,"limit":null}`, "weather"},
			{`{"qu\u0065ry":"we\u0061ther","limit":50}`, "weather"},
		} {
			if got := namesOf(t, found(t, session, test.arguments)); got != test.want {
				t.Errorf("%s finds %q, want %q", test.arguments, got, test.want)
			}
		}
	})
}

// TestSearchWeighs: words have weights by their place; a query that is a name finds it first.
func TestSearchWeighs(t *testing.T) {
	for _, test := range []struct{ tools, query, want string }{
		{`{"name":"mail_send"}|{"name":"send_mail","description":"takes a message to where it should be"}`, "send_mail", "send_mail mail_send"},
		{`{"name":"a","description":"alpha"}|{"name":"b","description":"beta"}`, "beta beta alpha", "a b"},
		{`{"name":"a","description":"zebra"}|{"name":"b","title":"zebra"}|{"name":"zebra_c"}`, "zebra", "zebra_c b a"},
		{`{"name":"a","description":"often"}|{"name":"b","description":"often"}|{"name":"c","description":"rare"}`, "often rare", "c a b"},
		{`{"name":"a","description":"needle in a very large stack of hay"}|{"name":"b","description":"needle"}`, "needle", "b a"},
		{`{"name":"a","description":"zebra"}|{"name":"b","annotations":{"title":"zebra"}}|{"name":"c","annotations":7}`, "zebra", "b a"},
		{`{"name":"a","inputSchema":{"properties":{"how":{"enum":["squash","rebase",7]}}}}|{"name":"b","description":"squash"}`, "squash", "b a"},
		{`{"name":"a","description":"configuration"}|{"name":"b","description":"config"}`, "config", "b a"},
	} {
		session := connect(t, newServer(t, newSource(strings.Split(test.tools, "|")...)), nil)
		if got := foundNames(t, session, test.query); got != test.want {
			t.Errorf("%q finds %q of %s, want %q", test.query, got, test.tools, test.want)
		}
	}
}

// TestFoundEntries: definitions keep their bytes.
func TestFoundEntries(t *testing.T) {
	odd := `{ "zz":[1.0,1e2,9007199254740993], "inputSchema":{"type":"object","$defs":{"x":{}},"if":{},"unknown":-0 },"description":"a \u00e9 \/ \"<b>\"" ,"name":"odd","_meta":{"vendor/x":1.50}}`
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, newSource("plain", odd, `{"name":"\u0065scaped"}`)), &client.Options{Era: era})
		for query, want := range map[string]string{"odd": odd, "escaped": `{"name":"\u0065scaped"}`} {
			got := found(t, session, `{"query":"`+query+`"}`)
			if len(got) != 1 || string(got[0]) != want {
				t.Errorf("found is\n%s, want\n%s", got, want)
			}
		}
	})
}

// TestSearchOrder: tools of equal rank keep the order of the list.
func TestSearchOrder(t *testing.T) {
	var tools []string
	for i := range 30 {
		tools = append(tools, fmt.Sprintf("%c_tool", 'a'+(i*7)%26)+fmt.Sprint(i))
	}
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":%q,"description":"does it","inputSchema":{}}`, tools[i])
	}
	session := connect(t, newServer(t, newSource(tools...)), nil)
	all := strings.Fields(namesOf(t, found(t, session, `{"query":"","limit":50}`)))
	if len(all) != len(tools) {
		t.Fatalf("found are %d", len(all))
	}
	for _, limit := range []int{1, 2, 10, 29, 30, 50} {
		got := strings.Fields(namesOf(t, found(t, session, fmt.Sprintf(`{"query":"does","limit":%d}`, limit))))
		if want := all[:min(limit, len(all))]; !slices.Equal(got, want) {
			t.Errorf("with the limit %d found are %q, want %q", limit, got, want)
		}
	}
	if got := len(found(t, session, `{"query":"does it"}`)); got != defaultLimit {
		t.Errorf("without a limit found are %d", got)
	}
}

// TestSearchRanksTheBest: the best tools come first, for every limit.
func TestSearchRanksTheBest(t *testing.T) {
	var tools []string
	for i := range 100 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":"%s %s"}`, i, strings.Repeat("needle ", i), strings.Repeat("hay ", 100-i)))
	}
	session := connectBy(t, transport.Pipe(newServer(t, newSource(tools...))), nil)
	for limit := 1; limit <= 50; limit++ {
		var want []string
		for i := range limit {
			want = append(want, fmt.Sprintf("tool%d", 99-i))
		}
		if got := namesOf(t, found(t, session, fmt.Sprintf(`{"query":"needle","limit":%d}`, limit))); got != strings.Join(want, " ") {
			t.Fatalf("with the limit %d found are %q, want %q", limit, got, want)
		}
	}
}

// TestFoundIsBounded: the result is limited in size, but has the best tool.
func TestFoundIsBounded(t *testing.T) {
	racetest.Skip(t)
	entry := func(name string, size int) string {
		return fmt.Sprintf(`{"name":%q,"description":"big","_meta":{"x":%q}}`, name, strings.Repeat("x", size))
	}
	session := connect(t, newServer(t, newSource(entry("a", 500<<10), entry("b", 500<<10), entry("c", 500<<10))), nil)
	if got := foundNames(t, session, "big"); got != "a b" {
		t.Errorf("found is %q", got)
	}
	session = connect(t, newServer(t, newSource(entry("a", 1100<<10), "b")), nil)
	if got := foundNames(t, session, ""); got != "a" {
		t.Errorf("found is %q", got)
	}
}

// TestIndexIsBounded: the words of a tool are limited, and the words that begin with one of a query.
func TestIndexIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "w%dx ", i)
	}
	long := strings.Repeat("y", 100)
	session := connect(t, newServer(t, newSource(
		fmt.Sprintf(`{"name":"many","description":%q}`, text.String()), fmt.Sprintf(`{"name":"long","description":%q}`, long))), nil)
	for query, want := range map[string]string{"w1x": "many", "w500x": "many", "w600x": "", long: "long", long[:70]: "long", long[:60]: ""} {
		if got := foundNames(t, session, query); got != want {
			t.Errorf("%.20q finds %q, want %q", query, got, want)
		}
	}
	var tools []string
	for i := range 45 {
		tools = append(tools, fmt.Sprintf("zebra%dx", i+10))
	}
	session = connect(t, newServer(t, newSource(tools...)), nil)
	if got := len(found(t, session, `{"query":"zebra","limit":50}`)); got != 32 {
		t.Errorf("found are %d tools, want 32", got)
	}
}
