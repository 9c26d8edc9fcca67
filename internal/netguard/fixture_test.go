package netguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// errStop ends a fetch that was allowed: tests connect to no other machine.
var errStop = errors.New("the test connects to nothing")

// sealed returns a guard that fails the test when it looks up a name or connects.
func sealed(t testing.TB, opts netguard.Options) *netguard.Guard {
	t.Helper()
	opts.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was looked up")
		return nil, errStop
	}}
	guard := netguard.New(&opts)
	guard.OnConnect(func(to netip.AddrPort) error {
		t.Errorf("%v was about to be connected to", to)
		return errStop
	})
	return guard
}

// watched returns a guard that records the addresses to which it would connect.
func watched(t testing.TB, opts netguard.Options) (*netguard.Guard, func() []netip.Addr) {
	t.Helper()
	var mu sync.Mutex
	var seen []netip.Addr
	guard := netguard.New(&opts)
	guard.OnConnect(func(to netip.AddrPort) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, to.Addr())
		return errStop
	})
	return guard, func() []netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		all := seen
		seen = nil
		return all
	}
}

// wantRefused checks that a fetch was refused, and did not fail otherwise.
func wantRefused(t testing.TB, what string, err error) {
	t.Helper()
	if refused, ok := errors.AsType[*netguard.RefusedError](err); !ok {
		t.Errorf("%s: the error is %v, want a refusal", what, err)
	} else if refused.Reason == "" {
		t.Errorf("%s: refused without a reason", what)
	}
}

func get(t testing.TB, guard *netguard.Guard, url string) (string, error) {
	t.Helper()
	body, _, err := guard.Get(t.Context(), url, 0)
	return string(body), err
}

// serve starts an HTTP server on this machine.
func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// resolver returns a resolver with made-up addresses. answer returns the addresses of a
// name for the nth query of that family.
func resolver(answer func(name string, v6 bool, n int) []netip.Addr) *net.Resolver {
	var mu sync.Mutex
	asked := make(map[string]int)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer ours.Close()
			for {
				query, err := readDNS(ours)
				if err != nil {
					return
				}
				name, kind, question := parseQuestion(query)
				mu.Lock()
				key := name + string(rune(kind))
				asked[key]++
				addrs := answer(name, kind == typeAAAA, asked[key])
				mu.Unlock()
				if writeDNS(ours, query, question, kind, addrs) != nil {
					return
				}
			}
		}()
		return theirs, nil
	}}
}

const typeA, typeAAAA = 1, 28 // RFC 1035, RFC 3596

// readDNS reads a DNS message over TCP: its length, then the message.
func readDNS(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

// parseQuestion returns the name and type of a query, and its question section.
func parseQuestion(query []byte) (name string, kind uint16, section []byte) {
	at := 12
	for query[at] != 0 {
		size := int(query[at])
		name += string(query[at+1:at+1+size]) + "."
		at += 1 + size
	}
	at++
	return name, binary.BigEndian.Uint16(query[at:]), query[12 : at+4]
}

func writeDNS(w io.Writer, query, question []byte, kind uint16, addrs []netip.Addr) error {
	message := append([]byte{0, 0, query[0], query[1], 0x84, 0, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0}, question...)
	for _, addr := range addrs {
		data := addr.AsSlice()
		message = append(message, 0xC0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
		message = append(message, data...)
	}
	binary.BigEndian.PutUint16(message, uint16(len(message)-2))
	_, err := w.Write(message)
	return err
}

func TestMain(m *testing.M) { leaktest.Main(m) }
