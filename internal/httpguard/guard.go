package httpguard

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Guard decides which requests a route accepts. It is immutable and may be used
// concurrently. The zero value has empty lists.
type Guard struct {
	hosts   map[authority]struct{}
	origins map[origin]struct{}
}

// NewGuard returns a guard with lists of allowed hosts and origins. A host is a name or an
// address, with a port or for any port: "example.com", "example.com:8443", "[2001:db8::1]".
// Its port is compared with the Host header, in which clients omit the default port of the
// scheme. An origin is a scheme, a host and a port unless it is the default one:
// "https://app.example.com". There are no patterns. The error names the list, the malformed
// entry and the expected form.
func NewGuard(hosts, origins []string) (*Guard, error) {
	g := &Guard{}
	var err error
	g.hosts, err = parseList("Hosts", hosts, parseAuthority, "a host name or an address with an optional port, such as example.com or example.com:8443")
	if err != nil {
		return nil, err
	}
	g.origins, err = parseList("Origins", origins, parseOrigin, "a scheme and a host with an optional port, such as https://app.example.com")
	if err != nil {
		return nil, err
	}
	return g, nil
}

func parseList[T comparable](name string, entries []string, parse func(string) (T, bool), expected string) (map[T]struct{}, error) {
	list := make(map[T]struct{}, len(entries))
	for _, text := range entries {
		entry, ok := parse(text)
		if !ok {
			return nil, fmt.Errorf("%s: expected %s, not %q", name, expected, text)
		}
		list[entry] = struct{}{}
	}
	return list, nil
}

// Admit reports whether a request may continue. If not, Admit has answered the request. methods are the methods of the
// route.
//
// On a connection to a loopback address, and if the local address is unknown, the Host must
// be a loopback name or listed. On other connections, Unix sockets included, any Host is
// allowed unless hosts are listed; then it must be listed, a loopback name or the local address
// of the connection, which no foreign name can be (DNS rebinding). A request without Origin is
// allowed. A request with several origins, with "null" or with an origin that is not listed is
// refused, except from a page of a loopback address on a connection to one, and from a page with
// the same host and port as the request if that Host is a loopback name or the local address.
// Both refusals have status 403.
//
// Pages of listed origins may read the response: Admit sets the CORS headers and answers
// preflights. A method that is not listed is refused with status 405. The body of a GET is abandoned.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	from, at := localAddress(r)
	host, ok := parseAuthority(r.Host)
	own := ok && (host.isLoopback() || host.addr.IsValid() && host.addr == at)
	if !own && !(ok && g.lists(host)) && (from != remote || len(g.hosts) > 0) {
		refuse(w, r, http.StatusForbidden, "the host "+jsonscan.Quote(r.Host)+" is not served here; the server's option Hosts (-host of the command) lists those that are")
		return false
	}
	if lines := r.Header["Origin"]; len(lines) > 0 {
		listed, ok := g.admitsOrigin(lines, from)
		if !ok && !(own && from == remote && isSameOrigin(lines, host)) {
			refuse(w, r, http.StatusForbidden, "requests from the origin "+jsonscan.Quote(strings.Join(lines, ", "))+" are not allowed; the server's option Origins lists those that are")
			return false
		}
		if listed {
			allowReading(w.Header(), lines[0])
			if isPreflight(r) {
				answerPreflight(w, r, methods)
				return false
			}
		}
	}
	if !slices.Contains(methods, r.Method) {
		allowed := strings.Join(methods, ", ")
		w.Header().Set("Allow", allowed)
		refuse(w, r, http.StatusMethodNotAllowed, "the method "+jsonscan.Quote(r.Method)+" is not allowed here; expected "+allowed)
		return false
	}
	if r.Method == http.MethodGet {
		AbandonBody(w, r)
	}
	return true
}

// AllowOrigin lets pages of listed origins read the response. It returns true if the request was a preflight, which it
// has answered. It refuses no request. It is for handlers that answer before a route with its own guard. methods are
// the methods of the route.
func (g *Guard) AllowOrigin(w http.ResponseWriter, r *http.Request, methods ...string) (answered bool) {
	listed, ok := g.admitsOrigin(r.Header["Origin"], unknown)
	if !listed || !ok {
		return false
	}
	allowReading(w.Header(), r.Header["Origin"][0])
	if !isPreflight(r) {
		return false
	}
	answerPreflight(w, r, methods)
	return true
}

func (g *Guard) lists(host authority) bool {
	_, exact := g.hosts[host]
	_, anyPort := g.hosts[host.withoutPort()]
	return exact || anyPort
}

// isSameOrigin reports whether a page has the host and port of the request.
func isSameOrigin(lines []string, host authority) bool {
	if len(lines) != 1 {
		return false
	}
	o, ok := parseOrigin(lines[0])
	if !ok || o.scheme != "http" && o.scheme != "https" {
		return false
	}
	if host.port == defaultPort(o.scheme) {
		host.port = ""
	}
	return o.authority == host
}

func (g *Guard) admitsOrigin(lines []string, from locality) (listed, ok bool) {
	if len(lines) != 1 {
		return false, false
	}
	o, ok := parseOrigin(lines[0])
	if !ok {
		return false, false
	}
	_, listed = g.origins[o]
	return listed, listed || from == loopback && o.isLoopback()
}

// A locality says where the connection of a request ends on this machine.
type locality int

const (
	unknown locality = iota // treated as the stricter of the others
	loopback
	remote // or a Unix socket, which no web page can reach
)

// localAddress returns the locality of the connection, and its local address if it has one.
func localAddress(r *http.Request) (locality, netip.Addr) {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		if addr == nil {
			return unknown, netip.Addr{}
		}
		ip, ok := netip.AddrFromSlice(addr.IP)
		switch {
		case !ok:
			return unknown, netip.Addr{}
		case ip.Unmap().IsLoopback():
			return loopback, ip.Unmap()
		}
		return remote, ip.Unmap()
	case *net.UnixAddr:
		return remote, netip.Addr{}
	}
	return unknown, netip.Addr{}
}

// refuse answers a request whose body was not read.
func refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	RefuseUnread(w, r, status, jsonrpc.InvalidRequest, message)
}

// exposed lists the response headers that a page may read.
const exposed = "Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce"

// paramPrefix is the prefix of the request headers that repeat a tool's arguments.
const paramPrefix = "mcp-param-"

// isSendable reports whether a page may send a request header. name is in lower case.
func isSendable(name string) bool {
	switch name {
	case "accept", "authorization", "content-type", "dpop", "last-event-id",
		"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id":
		return true
	}
	return len(name) > len(paramPrefix) && strings.HasPrefix(name, paramPrefix) && isToken(name)
}

// allowReading lets pages of an origin read the response.
func allowReading(header http.Header, origin string) {
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposed)
}

// isPreflight reports whether a request is a CORS preflight.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answerPreflight answers with the allowed methods, and with the requested headers that a page may send.
func answerPreflight(w http.ResponseWriter, r *http.Request, methods []string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	header.Set("Access-Control-Max-Age", preflightAge)
	if allowed := sendable(r.Header["Access-Control-Request-Headers"]); len(allowed) > 0 {
		header.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	}
	AbandonBody(w, r)
	w.WriteHeader(http.StatusNoContent)
}

func sendable(lines []string) []string {
	var names []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.ToLower(strings.Trim(name, " \t"))
			if isSendable(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// isToken reports whether a lower-case text is a token (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

// RefuseUnread is [Refuse] for a request whose body was not read.
func RefuseUnread(w http.ResponseWriter, r *http.Request, status int, code jsonrpc.Code, message string) {
	AbandonBody(w, r)
	Refuse(w, status, code, message)
}

// Refuse answers a request with a JSON-RPC error without an id.
func Refuse(w http.ResponseWriter, status int, code jsonrpc.Code, message string) {
	body, err := jsonrpc.Append(nil, &jsonrpc.Response{Error: &jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // only an id can fail to encode
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// RefuseBusy answers a request that exceeds a limit with status 503. The client may try again
// after 5 seconds.
func RefuseBusy(w http.ResponseWriter, message string) {
	SetRetryAfter(w)
	Refuse(w, http.StatusServiceUnavailable, jsonrpc.Busy, message)
}

// SetRetryAfter says that the client may try again after 5 seconds.
func SetRetryAfter(w http.ResponseWriter) { w.Header().Set("Retry-After", "5") }

// CopyWrites returns a writer that retains nothing after Write has returned. The HTTP/2
// writer of net/http may read its argument after a failed write, when a pooled buffer holds
// the answer of another client.
func CopyWrites(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.ProtoMajor < 2 {
		return w
	}
	return copyWriter{w}
}

type copyWriter struct{ http.ResponseWriter }

func (c copyWriter) Write(p []byte) (int, error) { return c.ResponseWriter.Write(bytes.Clone(p)) }

// Unwrap supports [http.ResponseController].
func (c copyWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
