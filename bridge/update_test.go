package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ways := make(map[string]*line)
		config := func(alias, fingerprint string) bridge.Config {
			key := alias + " " + fingerprint
			if ways[key] == nil {
				ways[key] = lineTo(toolsOnly(client.Legacy, "t"+fingerprint))
			}
			return bridge.Config{Alias: alias, Dialer: ways[key], Fingerprint: fingerprint}
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, config("keep", "1"), config("change", "1"), config("go", "1"))
		if err != nil {
			t.Fatal(err)
		}
		g := newGuest(t, mount(t, b), client.Legacy)
		g.told()
		dials := ways["keep 1"].dials.Load()
		check := func(what, want string) {
			t.Helper()
			pass(time.Second)
			if got := names(b.Catalog(), mcp.KindTool); got != want {
				t.Errorf("%s: the tools are %q, want %q", what, got, want)
			}
			if got := g.tools(t); got != want {
				t.Errorf("%s: the face has %q, want %q", what, got, want)
			}
			if ways["keep 1"].dials.Load() != dials {
				t.Errorf("%s: the server that is kept was started again", what)
			}
		}
		check("at first", "keep__t1 change__t1 go__t1")
		update := func(configs ...bridge.Config) {
			t.Helper()
			if err := b.Update(configs...); err != nil {
				t.Fatal(err)
			}
		}
		update(config("new", "1"), config("keep", "1"), config("change", "2"))
		check("updated", "new__t1 keep__t1 change__t2")
		if got := g.told(); !slices.Contains(got, mcp.Change{Kind: mcp.KindTool}) {
			t.Errorf("told %v", got)
		}
		for _, gone := range []string{"change 1", "go 1"} {
			if n := ways[gone].dials.Load(); n > 2 {
				t.Errorf("%s was started %d times", gone, n)
			}
		}
		if err := b.Update(config("new", "2"), config("a__b", "1")); err == nil {
			t.Error("a wrong alias is taken")
		}
		check("after an error", "new__t1 keep__t1 change__t2")
		update(config("new", "1"), config("keep", "1"), config("change", "2"))
		if got := g.told(); len(got) != 0 {
			t.Errorf("nothing has changed, and told are %v", got)
		}
		unmarked := config("keep", "1")
		update(unmarked)
		check("fewer", "keep__t1")
		unmarked.Fingerprint = ""
		update(unmarked)
		pass(time.Second)
		if n := ways["keep 1"].dials.Load(); n == dials {
			t.Error("a server without a fingerprint was not started anew")
		}
		update()
		dials = ways["keep 1"].dials.Load()
		check("none", "")
	})
}

// Updates, calls and ends at the same time.
func TestUpdateUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep, other := lineTo(echo(nil)), lineTo(echo(nil))
		configs := func(i int) []bridge.Config {
			return []bridge.Config{
				{Alias: "keep", Dialer: keep, Fingerprint: "1"},
				{Alias: "other", Dialer: other, Fingerprint: fmt.Sprint(i)},
			}
		}
		b := newBridge(t, nil, configs(0)...)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				for ctx.Err() == nil {
					if text, err := say(t.Context(), b, "keep__echo", "x"); err != nil || text != "x" {
						t.Errorf("it says %q, %v", text, err)
						return
					}
					_, _ = say(t.Context(), b, "other__echo", "x")
					<-time.After(time.Millisecond)
				}
			})
		}
		var updates sync.WaitGroup
		for i := range 50 {
			updates.Go(func() {
				<-time.After(time.Duration(1+i/2) * 10 * time.Millisecond)
				if err := b.Update(configs(i)...); err != nil {
					t.Error(err)
				}
			})
		}
		updates.Wait()
		cancel()
		running.Wait()
		if n := keep.dials.Load(); n > 2 {
			t.Errorf("the server that is kept was started %d times", n)
		}
	})
}
