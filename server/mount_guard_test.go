package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newMounted is a server in which a child with one of each kind is mounted, as "p_".
func newMounted(t testing.TB, ofServer, ofChild, ofEntries surround, fn func(*server.Request) error) *server.Server {
	t.Helper()
	s, child := newServer(ofServer.options()), newServer(ofChild.options())
	addEveryKind(child, ofEntries, fn)
	mount(t, s, child, "p_")
	return s
}

// TestMountedGuards: a guard refuses wherever it is, at the server, at what is mounted or
// at the entry, and each sees the call under the name that it has there.
func TestMountedGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var denies string
		at := func(where string) surround {
			return guarded(mcp.Guard{Name: where, Check: func(_ context.Context, call *mcp.Call) error {
				tr.step(where + " " + call.Target().Kind.String() + " " + call.Target().Name + " " + string(call.Member("name")))
				if where == denies {
					return errors.New("no")
				}
				return nil
			}})
		}
		s := newMounted(t, at("server"), at("child"), at("entry"), func(*server.Request) error { tr.step("run"); return nil })
		session := connect(t, s, era)
		for i, test := range mountedKinds("p_") {
			own := everyKind[i]
			var name, ownName string
			if strings.Contains(test.params, `{"name":"p_`) && test.kind != "completion" {
				name, ownName = `"`+test.name+`"`, `"`+own.name+`"`
			}
			kind := targetKinds[own.name].String()
			want := []string{
				"server " + kind + " " + test.name + " " + name, "child " + kind + " " + own.name + " " + ownName,
				"entry " + kind + " " + own.name + " " + ownName, "run",
			}
			for n, where := range []string{"server", "child", "entry", "nobody"} {
				denies = where
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				denied := fmt.Sprintf("Guard '%s' denied the %s call for '%s'", where, test.kind, test.name)
				if open := where == "nobody"; open != (err == nil) || !open && message(err) != denied {
					t.Errorf("%s, refused at the %s: the error is %v", test.params, where, err)
				}
				wantSteps(t, &tr, want[:n+1]...)
			}
		}
	})
}

// TestMountedChain: what surrounds the server, and then the mount, surrounds what is
// mounted, with all that surrounds that.
func TestMountedChain(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		outer, inner := tr.around("s").options(), tr.around("c").options()
		outer.Middleware, inner.Middleware = []mcp.Middleware{tr.middleware("s-outer")}, []mcp.Middleware{tr.middleware("c-outer")}
		s, child := newServer(outer), newServer(inner)
		addEveryKind(child, tr.around("e"), func(*server.Request) error { tr.step("function"); return nil })
		m := tr.around("m")
		shutsDown(t, s)
		if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "p_", Guards: m.Guards, CallMiddleware: m.CallMiddleware}); err != nil {
			t.Fatal(err)
		}
		session := connect(t, s, era)
		for _, test := range mountedKinds("p_") {
			tr.take()
			if _, err := raw(t, session, test.method, test.params); err != nil {
				t.Errorf("%s: %v", test.params, err)
			}
			wantSteps(t, &tr, "s-outer", "s-check", "m-check", "s-run", "m-run", "s-call1", "s-call2", "m-call1", "m-call2",
				"c-outer", "c-check", "e-check", "c-run", "e-run", "c-call1", "c-call2", "e-call1", "e-call2", "function",
				"/e-call2", "/e-call1", "/c-call2", "/c-call1", "/e-run", "/c-run", "/c-outer",
				"/m-call2", "/m-call1", "/s-call2", "/s-call1", "/m-run", "/s-run", "/s-outer")
		}
	})
}

// TestMountedMetadata: guards of the server see what was registered with the entry.
func TestMountedMetadata(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		around := guarded(mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			m := call.Target().Metadata
			seen = fmt.Sprint(m["shared"], m["server"], m["mount"], m["middle"], m["child"], m["entry"])
			return nil
		}})
		around.Metadata = map[string]any{"shared": "server", "server": 1}
		middle := newMounted(t, surround{Metadata: map[string]any{"shared": "middle", "middle": 2}},
			surround{Metadata: map[string]any{"shared": "child", "child": 3}},
			surround{Metadata: map[string]any{"shared": "entry", "entry": 4}}, func(*server.Request) error { return nil })
		s := newServer(around.options())
		mount(t, s, newServer(&server.Options{Metadata: map[string]any{"child": "of another"}}), "")
		shutsDown(t, s)
		if err := s.Mount(middle.Provider(), &server.MountOptions{Prefix: "m_", Metadata: map[string]any{"shared": "mount", "mount": 5}}); err != nil {
			t.Fatal(err)
		}
		session := connect(t, s, era)
		for _, test := range mountedKinds("m_p_") {
			seen = ""
			if _, err := raw(t, session, test.method, test.params); err != nil || seen != "entry1 5 2 3 4" {
				t.Errorf("%s: the guard sees %q, %v", test.params, seen, err)
			}
		}
	})
}

// TestMountedHidden: what is hidden anywhere is not listed, and a call for it is
// answered as one for what nobody has ever mounted.
func TestMountedHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hiding := guarded(staffOnly)
		fine := func(*server.Request) error { return nil }
		lost := connectAs(t, newServer(&server.Options{Logger: quiet()}), era, "guest")
		for where, s := range map[string]*server.Server{
			"server": newMounted(t, hiding, surround{}, surround{}, fine),
			"child":  newMounted(t, surround{}, hiding, surround{}, fine),
			"entry":  newMounted(t, surround{}, surround{}, hiding, fine),
		} {
			staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
			for range 2 {
				if got, want := listed(t, staff), []string{"p_tool", "p_raw", "app:r", "app:t/{x}", "p_prompt"}; !slices.Equal(got, want) {
					t.Errorf("hidden at the %s: the staff sees %q, want %q", where, got, want)
				}
				if got := listed(t, guest); len(got) > 0 {
					t.Errorf("hidden at the %s: a guest sees %q", where, got)
				}
			}
			for _, test := range mountedKinds("p_") {
				if _, err := raw(t, staff, test.method, test.params); err != nil {
					t.Errorf("hidden at the %s, %s: the staff gets %v", where, test.params, err)
				}
				_, err := raw(t, guest, test.method, test.params)
				_, want := raw(t, lost, test.method, test.params)
				if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
					t.Errorf("hidden at the %s, %s: a guest gets %v, would get %v if there were nothing", where, test.params, err, want)
				}
			}
		}
	})
}

// TestDeeplyHidden: what is hidden below is answered like what a server has never had.
func TestDeeplyHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		middle := newMounted(t, surround{}, surround{}, guarded(staffOnly), func(*server.Request) error { return nil })
		s := newServer(&server.Options{Logger: quiet()})
		mount(t, s, middle, "m_")
		guest, lost := connectAs(t, s, era, "guest"), connectAs(t, newServer(nil), era, "guest")
		for _, test := range mountedKinds("m_p_") {
			_, err := raw(t, guest, test.method, test.params)
			_, want := raw(t, lost, test.method, test.params)
			if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
				t.Errorf("%s: a guest gets %v, would get %v if there were nothing", test.params, err, want)
			}
		}
	})
}

// TestMountedPanics cost one call, and tell the caller nothing.
func TestMountedPanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		child := newServer(nil)
		addEveryKind(child, surround{}, func(*server.Request) error { panic("the secret is 42") })
		for _, around := range []surround{{}, guarded(mcp.Guard{Check: allow})} {
			opts := around.options()
			opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			s := newServer(opts)
			mount(t, s, child, "p_")
			session := connect(t, s, era)
			for _, test := range mountedKinds("p_") {
				log.Reset()
				_, err := raw(t, session, test.method, test.params)
				if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) || !strings.Contains(log.String(), "the secret is 42") {
					t.Errorf("%s: the caller is told %v, the operator %s", test.params, err, &log)
				}
			}
		}
	})
}
