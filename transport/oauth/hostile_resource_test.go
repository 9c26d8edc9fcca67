package oauth_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// inside are hosts in private networks, in many spellings. They must not be reached, even
// with AllowLoopback.
var inside = []string{
	"0.0.0.0", "0.1.2.3", "[::]", "127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0x7f000001", "0x7f.0x0.0x0.0x1", "0X7F.1", "00127.0.0.1", "127.0.0.01",
	"0", "0x0", "1.2.3.4.5", "4294967295", "256.256.256.256", "169.254.43518", "0xa9fea9fe", "2852039166", "１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "ⓛocalhost", "loca\u00adlhost",
	"[::ffff:10.0.0.1]", "[::FFFF:a00:1]", "[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::1]",
	"[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:7f00:1::]", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.100.100.200",
	"169.254.169.254", "169.254.170.2", "[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "168.63.129.16", "192.0.0.192", "[::ffff:169.254.169.254]", "192.0.2.1",
	"198.18.0.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[4000::1]", "", "a b", "a..b", "user@127.0.0.1",
}

// No URL in a challenge or in metadata leads into a private network.
func TestMetadataThatPointsInside(t *testing.T) {
	for position, set := range map[string]func(w *fixture, at string){
		"challenge": func(w *fixture, at string) { // and the well-known locations have nothing
			w.challenge, w.metadata = `Bearer resource_metadata="`+at+`"`, nil
		},
		"authorization_servers": func(w *fixture, at string) { w.metadata["authorization_servers"] = []string{at} },
		"token_endpoint": func(w *fixture, at string) {
			w.editMetadata = func(metadata map[string]any) { metadata["token_endpoint"] = at }
		},
		"registration_endpoint": func(w *fixture, at string) {
			w.editMetadata = func(metadata map[string]any) { metadata["registration_endpoint"] = at }
		},
	} {
		w := newFixture(t, nil)
		client := w.client(nil)
		for _, host := range inside {
			for _, scheme := range []string{"https", "http"} {
				set(w, scheme+"://"+host+"/x")
				_, err := w.request(client)
				if _, ok := errors.AsType[*oauth.MetadataError](err); !ok {
					t.Errorf("%s %s: got %v", position, host, err)
				}
				if _, refused := errors.AsType[*netguard.RefusedError](err); !refused && !strings.Contains(err.Error(), "expected a") {
					t.Errorf("%s %s: it was not refused: %v", position, host, err)
				}
			}
		}
		if len(w.opened) > 0 || w.count("issuer/register") > 0 || w.count("issuer/token") > 0 {
			t.Errorf("%s: the login went on: %v", position, w.requests)
		}
	}
}

// Authorization endpoints with unsafe URLs are not opened.
func TestAuthorizationEndpoints(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	for _, endpoint := range refusedURLs {
		w.editMetadata = func(metadata map[string]any) { metadata["authorization_endpoint"] = endpoint }
		_, err := w.request(client)
		if _, ok := errors.AsType[*oauth.URLError](err); !ok {
			t.Errorf("%q: got %v", endpoint, err)
		}
	}
	if len(w.opened) > 0 {
		t.Errorf("opened %q", w.opened)
	}
}

// DNS rebinding does not lead into a private network.
func TestNameThatIsRebound(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	client, err := oauth.NewClient(&oauth.ClientOptions{Resolver: resolverTo(netip.MustParseAddr("127.0.0.1"))})
	if err != nil {
		t.Fatal(err)
	}
	server := &url.URL{Scheme: "https", Host: "mcp.example", Path: "/mcp"}
	for _, challenge := range []string{"", `Bearer resource_metadata="https://rebound.example:` + port + `/x"`} {
		res := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {challenge}}}
		again, err := client.Challenged(t.Context(), server, &http.Request{URL: server, Header: http.Header{}}, res)
		if _, refused := errors.AsType[*netguard.RefusedError](err); again || !refused {
			t.Errorf("%q: got %v, %v", challenge, again, err)
		}
	}
	_ = listener.(*net.TCPListener).SetDeadline(time.Now())
	if guest, err := listener.Accept(); err == nil {
		guest.Close()
		t.Error("somebody connected")
	}
}

func TestResourcesOfOthers(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	host := strings.TrimPrefix(w.resource.URL, "http://")
	for _, resource := range []any{
		nil, "", "x", "https://evil.example/mcp", "https://" + host + "/mcp", w.resource.URL + "/mc", w.resource.URL + "/mcpx", w.resource.URL + "/mcp/x", w.resource.URL + "/other", w.resource.URL + "/%6dcp",
		w.resource.URL + "/mcp#x", w.resource.URL + "/mcp#", w.resource.URL + "/mcp?x=1", "http://user@" + host + "/mcp", "http://" + host + ".evil.example/mcp", "http://127.0.0.1:1/mcp", 7, []string{w.mcp()}, "//" + host + "/mcp",
	} {
		w.metadata["resource"] = resource
		_, err := w.request(client)
		if _, ok := errors.AsType[*oauth.MetadataError](err); !ok {
			t.Errorf("%v: got %v", resource, err)
		}
	}
	if len(w.requests) == 0 || strings.Contains(strings.Join(w.requests, "\n"), " issuer/") {
		t.Errorf("the requests were %v", w.requests)
	}
	for _, resource := range []string{w.mcp(), w.mcp() + "/", w.resource.URL, w.resource.URL + "/"} {
		w.metadata["resource"] = resource
		if status, err := w.request(w.client(nil)); err != nil || status != http.StatusOK {
			t.Errorf("%v: got %d, %v", resource, status, err)
		}
	}
}

// A malformed, slow or redirected document is an error. Only an absent one has defaults.
func TestDocumentsThatAreNone(t *testing.T) {
	const place = "resource/.well-known/oauth-protected-resource/mcp"
	long := `{"resource":"` + strings.Repeat("x", 2<<20) + `"}`
	for name, by := range map[string]http.HandlerFunc{
		"garbage":         respondJSON(`{"resource`),
		"an array":        respondJSON(`[]`),
		"a member twice":  respondJSON(`{"resource":"a","resource":"b"}`),
		"deep":            respondJSON(strings.Repeat("[", 100_000)),
		"not UTF-8":       respondJSON("{\"resource\":\"\xff\"}"),
		"too long":        respondJSON(long),
		"broken":          func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusInternalServerError) },
		"no servers":      respondJSON(`{"resource":"RESOURCE/mcp","authorization_servers":[]}`),
		"no such servers": respondJSON(`{"resource":"RESOURCE/mcp","authorization_servers":["javascript:x"]}`),
		"query in server": respondJSON(`{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER?x"]}`),
		"elsewhere": func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, "http://localhost:1/", http.StatusFound)
		},
		"elsewhere inside": func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, "http://169.254.169.254/", http.StatusFound)
		},
		"in circles": func(res http.ResponseWriter, r *http.Request) { http.Redirect(res, r, r.URL.Path, http.StatusFound) },
	} {
		for _, challenge := range []string{"", "Bearer"} {
			w := newFixture(t, nil)
			w.challenge = challenge
			w.replace(place, func(res http.ResponseWriter, r *http.Request) {
				r.Header.Set("Issuer", w.issuer.URL)
				r.Header.Set("Resource", w.resource.URL)
				by(res, r)
			})
			_, err := w.request(w.client(nil))
			if _, ok := errors.AsType[*oauth.MetadataError](err); !ok || len(w.opened) > 0 || w.count("resource/authorize") > 0 {
				t.Errorf("%s, %q: got %v", name, challenge, err)
			}
		}
	}
}

// Waiting for a slow document ends with the caller's context.
func TestDocumentThatIsSlow(t *testing.T) {
	w := newFixture(t, nil)
	w.replace("resource/.well-known/oauth-protected-resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(res, "{")
		_ = http.NewResponseController(res).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := w.client(nil).Login(ctx, w.mcp())
	if _, ok := errors.AsType[*oauth.MetadataError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A server without metadata is its own authorization server, with default endpoints.
func TestServerWithoutDocuments(t *testing.T) {
	w := newFixture(t, nil)
	w.metadata, w.challenge = nil, "Bearer"
	for _, path := range []string{"/authorize", "/token", "/register"} {
		w.replace("resource"+path, func(res http.ResponseWriter, r *http.Request) { w.as.ServeHTTP(res, r) })
	}
	w.as.URL = w.resource.URL
	w.mustSucceed(w.client(nil))
}

// A server without metadata, and without the default endpoints, causes an error that names all places that were tried.
func TestServerWithoutAnything(t *testing.T) {
	w := newFixture(t, nil)
	w.metadata, w.challenge = nil, "Bearer"
	err := w.client(nil).Login(t.Context(), w.mcp())
	if _, ok := errors.AsType[*oauth.RegistrationError](err); !ok {
		t.Fatalf("got %v, want a RegistrationError", err)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		if place := strconv.Quote(w.resource.URL + path); !strings.Contains(err.Error(), place) {
			t.Errorf("the error does not name %s: %v", place, err)
		}
	}
}

// No token is sent in the clear, or to another origin.
func TestTokensStayWhereTheyBelong(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	w.mustSucceed(client)
	server, _ := url.Parse(w.mcp())
	for _, to := range []string{"http://127.0.0.1:1/mcp", "https://" + server.Host + "/mcp", "http://localhost:" + server.Port() + "/mcp", "https://evil.example/mcp"} {
		u, _ := url.Parse(to)
		req := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}}
		if err := client.Authorize(t.Context(), server, req); err != nil || len(req.Header) > 0 {
			t.Errorf("%s gets %v, %v", to, req.Header, err)
		}
		if again, err := client.Challenged(t.Context(), server, req, &http.Response{StatusCode: http.StatusUnauthorized}); again || err != nil {
			t.Errorf("%s is fakeListener %v, %v", to, again, err)
		}
	}
	other, _ := url.Parse(w.resource.URL + "/other")
	req := &http.Request{Method: http.MethodPost, URL: other, Header: http.Header{}}
	if err := client.Authorize(t.Context(), other, req); err != nil || len(req.Header) > 0 {
		t.Errorf("another server of the origin gets %v, %v", req.Header, err)
	}
	clear, _ := url.Parse("http://mcp.example/mcp")
	_, err := client.Challenged(t.Context(), clear, &http.Request{URL: clear}, &http.Response{StatusCode: http.StatusUnauthorized})
	if _, ok := errors.AsType[*oauth.URLError](err); !ok {
		t.Errorf("in the clear: %v", err)
	}
}

// respondJSON returns a handler that responds with a text, in which it replaces RESOURCE
// and ISSUER by their URLs.
func respondJSON(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.NewReplacer("RESOURCE", r.Header.Get("Resource"), "ISSUER", r.Header.Get("Issuer")).Replace(text))
	}
}

// resolverTo returns a resolver that resolves all names to one IPv4 address. RFC 1035,
// section 4.
func resolverTo(addr netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(ours, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(ours, query); err != nil {
					return
				}
				end := 12
				for query[end] != 0 {
					end += 1 + int(query[end])
				}
				question, answers := query[12:end+5], byte(0)
				var record []byte
				if query[end+2] == 1 { // A
					answers, record = 1, append([]byte{0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4}, addr.AsSlice()...)
				}
				message := append([]byte{query[0], query[1], 0x84, 0, 0, 1, 0, answers, 0, 0, 0, 0}, question...)
				message = append(message, record...)
				if _, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)); err != nil {
					return
				}
			}
		}()
		return theirs, nil
	}}
}

// A host in a private network is used over http only if it is named.
func TestPlainHTTPHost(t *testing.T) {
	w := newFixture(t, nil)
	at := strings.Replace(w.mcp(), "127.0.0.1", "intranet.test", 1)
	w.metadata["resource"] = at
	login := func(hosts []string, networks ...netip.Prefix) error {
		client := w.client(func(o *oauth.ClientOptions) {
			o.AllowHTTP, o.AllowNetworks, o.Resolver = hosts, networks, resolverTo(netip.MustParseAddr("127.0.0.1"))
		})
		return client.Login(t.Context(), at)
	}
	here := netip.MustParsePrefix("127.0.0.1/32")
	if err := login([]string{"Intranet.test"}, here); err != nil {
		t.Error(err)
	}
	if err := login([]string{"other.test"}, here); !is[*oauth.URLError](err) {
		t.Errorf("a host that is not named: %v", err)
	}
	if err := login([]string{"intranet.test"}); err == nil {
		t.Error("an address that is not allowed is used")
	}
	opts := &oauth.ProtectOptions{Resource: at, AuthorizationServers: []string{testIssuer}, Verifier: verifier(t, newSigner(t, "1"))}
	if _, err := oauth.Protect(http.NotFoundHandler(), opts); err == nil {
		t.Error("a Resource with http is taken")
	}
	opts.AllowHTTP = true
	if _, err := oauth.Protect(http.NotFoundHandler(), opts); err != nil {
		t.Error(err)
	}
}
