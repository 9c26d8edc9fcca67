package edge

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Guard says which requests a route looks at. It is immutable and may be used
// concurrently; the zero value has no lists.
type Guard struct {
	hosts   map[authority]struct{}
	origins map[origin]struct{}
}

// NewGuard returns a guard with two lists. A host is a name or an address, with a
// port or for any port: "example.com", "example.com:8443", "[2001:db8::1]". A port
// is compared with what stands in the Host header, where a client leaves out the
// scheme's own. An origin is a scheme, a host and a port unless it is the scheme's own:
// "https://app.example.com". There are no patterns. The error names the list, the entry
// and what was expected.
func NewGuard(hosts, origins []string) (*Guard, error) {
	g := &Guard{}
	for _, text := range hosts {
		host, ok := parseAuthority(text)
		if !ok {
			return nil, badEntry("Hosts", text, "a host name or an address with an optional port, such as example.com or example.com:8443")
		}
		if g.hosts == nil {
			g.hosts = map[authority]struct{}{}
		}
		g.hosts[host] = struct{}{}
	}
	for _, text := range origins {
		o, ok := parseOrigin(text)
		if !ok {
			return nil, badEntry("Origins", text, "a scheme and a host with an optional port, such as https://app.example.com")
		}
		if g.origins == nil {
			g.origins = map[origin]struct{}{}
		}
		g.origins[o] = struct{}{}
	}
	return g, nil
}

func badEntry(list, entry, expected string) error {
	return fmt.Errorf("%s: expected %s, not %q", list, expected, entry)
}

// Admit says whether a request may go on; if not, it has been answered. The methods
// are those of the route.
//
// On a connection to a loopback address, and where the local address is not known,
// the Host must be a loopback name or listed. Anywhere else, Unix sockets included, it
// may be anything unless hosts are listed. A request without Origin passes; one with
// several, with "null", or with one that is not listed does not, except that a page
// from a loopback address passes on a connection to one. Both refusals are 403.
//
// Pages of listed origins may read the answer: Admit sets the CORS headers and
// answers their preflights. A method that is not the route's is 405.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	from := localAddress(r)
	if !g.admitsHost(r.Host, from) {
		refuse(w, r, http.StatusForbidden, "the host "+jsonscan.Quote(r.Host)+" is not served here; the server's option Hosts lists those that are")
		return false
	}
	if lines := r.Header["Origin"]; len(lines) > 0 {
		listed, ok := g.admitsOrigin(lines, from)
		if !ok {
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
	return true
}

// Share lets pages of listed origins read the answer, and answers their preflights: then
// it returns true. It refuses nobody, and is for what answers before a route that has its
// own guard. The methods are those of the route.
func (g *Guard) Share(w http.ResponseWriter, r *http.Request, methods ...string) (answered bool) {
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

func (g *Guard) admitsHost(text string, from locality) bool {
	if from == remote && len(g.hosts) == 0 {
		return true
	}
	host, ok := parseAuthority(text)
	if !ok {
		return false
	}
	if from != remote && host.isLoopback() {
		return true
	}
	_, exact := g.hosts[host]
	_, anyPort := g.hosts[host.withoutPort()]
	return exact || anyPort
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

// A locality is where the connection of a request ends on this machine.
type locality int

const (
	unknown locality = iota // taken for whichever of the others is stricter
	loopback
	remote // or a Unix socket, which no page reaches
)

func localAddress(r *http.Request) locality {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		switch {
		case addr == nil || addr.IP == nil:
			return unknown
		case addr.IP.IsLoopback():
			return loopback
		}
		return remote
	case *net.UnixAddr:
		return remote
	}
	return unknown
}

// refuse answers a request whose body stays unread.
func refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	TurnAway(w, r, status, jsonrpc.InvalidRequest, message)
}
