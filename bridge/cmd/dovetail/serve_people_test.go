package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// rolesOf are the roles of the people at newProvider.
var rolesOf = map[string][]string{"ann": {"ops"}, "bob": {"ops", "staff"}, "vera": {"audit"}, "zoe": {"sales"}}

// newProvider returns an OpenID provider at which the cookie person of a browser says who logs in.
func newProvider(t *testing.T) issuer {
	t.Helper()
	s, err := oauthtest.Start(&oauthtest.Options{
		Clients: []oauthtest.Client{{ID: "gateway", Secret: "gateway-secret", RedirectURIs: []string{"http://127.0.0.1/login/callback"}}},
		Person: func(r *http.Request) string {
			person, err := r.Cookie("person")
			if err != nil {
				return "nobody"
			}
			return person.Value
		},
		Claims: func(subject string) map[string]any { return map[string]any{"roles": rolesOf[subject]} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return issuer{s}
}

// startForPeople runs the program for people who log in at a provider.
func startForPeople(t *testing.T, at issuer, flags ...string) *program {
	t.Helper()
	t.Setenv("GATEWAY_SECRET", "gateway-secret")
	return start(t, append([]string{
		"-issuer", at.URL, "-audience", "shop", "-client-id", "gateway", "-client-secret-env", "GATEWAY_SECRET", "-operators", "ops,admin", "-viewers", "audit",
	}, flags...)...)
}

// newBrowser returns a browser of a person. Its cookies are for all ports of this machine.
func newBrowser(t *testing.T, person string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if person != "" {
		jar.SetCookies(&url.URL{Scheme: "http", Host: "127.0.0.1"}, []*http.Cookie{{Name: "person", Value: person, Path: "/"}})
	}
	return &http.Client{Jar: jar, Transport: http.DefaultTransport}
}

// visit opens a page in a browser, and returns its last URL, status and text.
func visit(t *testing.T, browser *http.Client, address string) (at *url.URL, status int, text string) {
	t.Helper()
	response, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Request.URL, response.StatusCode, string(body)
}

// feed connects a browser to the feed of the console, and returns the role that it has there.
func (p *program) feed(t *testing.T, browser *http.Client, token string) (page *consolePage, role string, status int) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"dovetail.console.v1"}, Jar: browser.Jar}
	if token != "" {
		dialer.Subprotocols = append(dialer.Subprotocols, "dovetail.token."+token)
	}
	socket, response, err := dialer.DialContext(t.Context(), "ws://"+p.address+"/console/feed", nil)
	if err != nil {
		if response == nil {
			t.Fatal(err)
		}
		return nil, "", response.StatusCode
	}
	t.Cleanup(func() { _ = socket.Close() })
	var hello struct{ Role string } // the first frame
	if err := socket.ReadJSON(&hello); err != nil {
		t.Fatal(err)
	}
	return &consolePage{t: t, socket: socket}, hello.Role, http.StatusSwitchingProtocols
}

// TestPeopleLogIn: a browser is sent to the provider and back to the page that it wanted. What the page shows depends on the roles of
// the person, and no token opens it.
func TestPeopleLogIn(t *testing.T) {
	p := startForPeople(t, newProvider(t))
	for person, want := range map[string]struct {
		role         string
		page, socket int
		approves     bool
	}{
		"ann":  {"operator", 200, 101, true},
		"bob":  {"operator", 200, 101, true},
		"vera": {"viewer", 200, 101, false},
		"zoe":  {"", 403, 403, false},
		"":     {"", 403, 403, false},
	} {
		browser := newBrowser(t, person)
		if _, role, status := p.feed(t, browser, ""); role != "" || status != http.StatusUnauthorized && status != http.StatusSeeOther {
			t.Errorf("%s gets the role %q before the login, status %d", person, role, status)
		}
		for _, page := range []string{"/console/?a=b", "/approvals/"} {
			at, status, _ := visit(t, browser, "http://"+p.address+page)
			if at.RequestURI() != page || status != want.page {
				t.Errorf("%s: %s leads to %s with the status %d", person, page, at, status)
			}
		}
		if _, role, status := p.feed(t, browser, ""); role != want.role || status != want.socket {
			t.Errorf("%s is %q in the console, status %d", person, role, status)
		}
		approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", nil, &channel.ClientOptions{HTTPClient: browser, Once: true, Logger: slog.New(slog.DiscardHandler)})
		if (err == nil) != want.approves {
			t.Errorf("%s connects as an approver: %v", person, err)
		}
		if err == nil {
			_ = approver.Close()
		}
	}
	for _, link := range []string{"token", "Bearer"} {
		if strings.Contains(p.said.String(), link+"=") {
			t.Errorf("the output has a link with a token: %s", p.said)
		}
	}
}

// TestLoginsThatAreRefused: a login counts in the browser in which it began, once, and a cookie only as it was set by this program.
func TestLoginsThatAreRefused(t *testing.T) {
	p := startForPeople(t, newProvider(t))
	origin := &url.URL{Scheme: "http", Host: "127.0.0.1"}
	site := "http://" + p.address
	response := func(browser *http.Client) string { // the URL that the provider sends the browser to
		follow := browser.CheckRedirect
		defer func() { browser.CheckRedirect = follow }()
		var last string
		browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if last = r.URL.String(); r.URL.Path == callbackPath {
				return http.ErrUseLastResponse
			}
			return nil
		}
		visit(t, browser, site+loginPath)
		return last
	}
	ann := newBrowser(t, "ann")
	code := response(ann)
	if _, status, text := visit(t, newBrowser(t, "bob"), code); status != http.StatusBadRequest {
		t.Errorf("the response in another browser: %d %s", status, text)
	}
	for name, changed := range map[string]string{"state": strings.Replace(code, "state=", "state=x", 1), "no state": site + callbackPath + "?code=x", "nothing": site + callbackPath} {
		if _, status, text := visit(t, ann, changed); status != http.StatusBadRequest {
			t.Errorf("a response with another %s: %d %s", name, status, text)
		}
	}
	if _, status, _ := visit(t, ann, code); status != http.StatusOK {
		t.Fatalf("the login of ann: %d", status)
	}
	if _, status, text := visit(t, ann, code); status != http.StatusBadRequest {
		t.Errorf("the same response again: %d %s", status, text)
	}
	refused := response(ann)
	denied, err := url.Parse(refused)
	if err != nil {
		t.Fatal(err)
	}
	query := denied.Query()
	query.Del("code")
	query.Set("error", "access_denied")
	denied.RawQuery = query.Encode()
	if _, status, text := visit(t, ann, denied.String()); status != http.StatusForbidden {
		t.Errorf("a refusal of the provider: %d %s", status, text)
	}

	sealed := ""
	for _, cookie := range ann.Jar.Cookies(origin) {
		if cookie.Name == browserCookie {
			sealed = cookie.Value
		}
	}
	for name, value := range map[string]string{"changed": sealed[:len(sealed)-2] + "AA", "text": "ann", "empty": "", "a login": response(newBrowser(t, "ann"))} {
		thief := newBrowser(t, "zoe")
		thief.Jar.SetCookies(origin, []*http.Cookie{{Name: browserCookie, Value: value, Path: "/"}})
		if _, role, _ := p.feed(t, thief, ""); role != "" {
			t.Errorf("a cookie that is %s opens the console as %s", name, role)
		}
	}
	for _, to := range []string{"https://evil.example/", "//evil.example/", `/\evil.example/`, "/\t/evil.example", "javascript:alert(1)", "evil", ""} {
		browser := newBrowser(t, "ann")
		at, status, _ := visit(t, browser, site+loginPath+"?"+url.Values{"to": {to}}.Encode())
		if at.Host != p.address || at.Path != "/console/" || status != http.StatusOK {
			t.Errorf("a login that returns to %q ends at %s, %d", to, at, status)
		}
	}

	logOut := func(site string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+logoutPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Fetch-Site", site)
		response, err := ann.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if status := logOut("cross-site"); status != http.StatusForbidden {
		t.Errorf("another site logs ann out: %d", status)
	}
	if _, role, _ := p.feed(t, ann, ""); role != "operator" {
		t.Errorf("ann is %q after that", role)
	}
	if status := logOut("same-origin"); status != http.StatusOK {
		t.Errorf("ann logs out: %d", status)
	}
	if _, role, _ := p.feed(t, ann, ""); role != "" {
		t.Errorf("ann is %q after the logout", role)
	}
}

// TestCallIsApprovedByAnotherPerson: an operator approves the call of another person and no own one, whether it was made by a client
// or in the console. The journal has the names.
func TestCallIsApprovedByAnotherPerson(t *testing.T) {
	at := newProvider(t)
	p := startForPeople(t, at, "-journal", t.TempDir()+"/journal.jsonl", "-roles-claim", "roles")
	refused := &output{} // what approvers log
	approve := func(person string) (asked chan *approval.Prompt) {
		browser := newBrowser(t, person)
		visit(t, browser, "http://"+p.address+"/approvals/")
		asked = make(chan *approval.Prompt, 10)
		approver, err := channel.Dial(t.Context(), "ws://"+p.address+"/approval", func(ctx context.Context, prompt *approval.Prompt) {
			asked <- prompt
			if err := prompt.Accept(ctx); err != nil {
				t.Error(err)
			}
		}, &channel.ClientOptions{HTTPClient: browser, Logger: slog.New(slog.NewTextHandler(refused, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = approver.Close() })
		return asked
	}
	asked := approve("ann")
	p.token = at.token(t, map[string]any{"sub": "ann", "roles": []string{"ops"}})
	session := p.connect(t, &client.Options{})
	done := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), "shelf__put", json.RawMessage(encoded(t, line{Path: p.path("by a client"), Text: "x"})), nil)
		done <- err
	}()
	refusedToApprove := func(caller string) {
		t.Helper()
		prompt := <-asked
		if prompt.Caller != caller {
			t.Errorf("the caller is %q", prompt.Caller)
		}
		refused.await(t, prompt.ID+".*this is your own call")
	}
	refusedToApprove("ann")
	browser := newBrowser(t, "ann")
	visit(t, browser, "http://"+p.address+"/console/")
	page, _, _ := p.feed(t, browser, "")
	quoted := encoded(t, encoded(t, line{Path: p.path("by the console"), Text: "x"}))
	if err := page.socket.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"do":"try","exposed":"shelf__put","arguments":`+quoted+`}`)); err != nil {
		t.Fatal(err)
	}
	refusedToApprove("console:ann")
	others := approve("bob")
	<-others
	<-others
	if err := <-done; err != nil {
		t.Error(err)
	}
	var frame struct {
		Calls []struct{ By, Outcome string }
	}
	page.until("calls", &frame, func() bool {
		for _, call := range frame.Calls {
			if call.By == "console:ann" && call.Outcome == "ok" {
				return true
			}
		}
		frame.Calls = nil // decoding keeps what is in the elements of a list
		return false
	})
	for _, name := range []string{"by a client", "by the console"} {
		if _, err := os.Stat(p.path(name)); err != nil {
			t.Error(err)
		}
	}
}

// TestFlagsOfPeople: flags that do not fit together are refused, with what to write.
func TestFlagsOfPeople(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"-http 127.0.0.1:0 -keys k.json -client-id gateway -operators ops", "-client-id is for -issuer"},
		{"-http 127.0.0.1:0 -issuer https://a.example -client-id gateway", "expected -operators"},
		{"-http 127.0.0.1:0 -issuer https://a.example -operators ops", "are for -client-id"},
		{"-http 127.0.0.1:0 -issuer https://a.example -viewers ops", "are for -client-id"},
		{"-http 127.0.0.1:0 -issuer https://a.example -client-id gateway -operators ops,", "expected roles"},
		{"-http 127.0.0.1:0 -issuer https://a.example -client-id gateway -operators ops -client-secret-env NO_SUCH_VARIABLE", "has no value"},
	} {
		err := run(t.Context(), append([]string{"serve"}, strings.Fields(test.line)...), strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %s", test.line, err, test.want)
		}
	}
}
