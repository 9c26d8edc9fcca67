package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

// slowly is a dependency that takes its time to start, unless its context ends.
func slowly(tr *trace, takes time.Duration) server.Dependency {
	return server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
		tr.step("start mill")
		select {
		case <-time.After(takes):
			return mill{}, func(context.Context) error { tr.step("stop mill"); return nil }, nil
		case <-ctx.Done():
			tr.step("give up mill")
			return mill{}, nil, ctx.Err()
		}
	})
}

// TestMountedStartIsGivenUp with that of the server, and does not go on behind its back.
func TestMountedStartIsGivenUp(t *testing.T) {
	for what, end := range map[string]func(s *server.Server) error{
		"its time is over": func(s *server.Server) error { return s.Start(context.Background()) },
		"it is shut down": func(s *server.Server) error {
			go func() { _ = s.Start(context.Background()) }()
			<-time.After(50 * time.Second)
			return errors.Join(s.Shutdown(context.Background()), s.Start(context.Background()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tr trace
				s, child := newServer(depends(slowly(&tr, 40*time.Second), lives(&tr, "oven", oven{}))), newServer(depends(lives(&tr, "salt", 0), slowly(&tr, 40*time.Second)))
				mount(t, s, child, "c_")
				if err := end(s); err == nil {
					t.Error("the server has started")
				}
				synctest.Wait()
				wantSteps(t, &tr, "start mill", "start oven", "start salt", "start mill", "give up mill", "stop salt", "stop oven", "stop mill")
				if err := child.Start(t.Context()); err == nil {
					t.Error("the child has started")
				}
			})
		})
	}
}

// TestMountIsRefusedBeforeStart: what collides is not started.
func TestMountIsRefusedBeforeStart(t *testing.T) {
	var tr trace
	s, child := newServer(depends()), newServer(depends(lives(&tr, "oven", oven{})))
	returns(s, "c_tool", "")
	returns(child, "tool", "")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCollision(t, s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}), "tool", "c_tool")
	wantSteps(t, &tr)
	mount(t, s, child, "d_")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	wantSteps(t, &tr, "start oven", "stop oven")
}

// TestShutdownWhileMounting: what has started too late is stopped, and not mounted.
func TestShutdownWhileMounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s, child := newServer(depends()), newServer(depends(slowly(&tr, 10*time.Second)))
		returns(child, "tool", "")
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mounted := make(chan error, 1)
		go func() { mounted <- s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}) }()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-mounted; err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("mounting gives %v", err)
		}
		wantSteps(t, &tr, "start mill", "stop mill")
		if s.InputSchema("c_tool") != nil {
			t.Error("the tool is there")
		}
	})
}

// TestCollisionWhileMounting: of two that are mounted at once with one name, one is
// there, and the other is stopped again.
func TestCollisionWhileMounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends())
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mounted := make(chan error, 2)
		for range 2 {
			child := newServer(depends(slowly(&tr, 10*time.Second)))
			returns(child, "tool", "")
			go func() { mounted <- s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"}) }()
		}
		first, second := <-mounted, <-mounted
		if first == nil {
			first = second
		} else if second != nil {
			t.Errorf("both are refused: %v, %v", first, second)
		}
		wantCollision(t, first, "tool", "c_tool")
		wantSteps(t, &tr, "start mill", "start mill", "stop mill")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop mill")
	})
}

// TestMountedLife: what is mounted is started after what its server depends on, and
// stopped before it; each sees its own dependencies only.
func TestMountedLife(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		state := func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
			return server.Value[*oven](r).degrees, nil
		}
		s := newServer(depends(lives(&tr, "oven", &oven{1})))
		middle := newServer(depends(lives(&tr, "mill", mill{})))
		child := newServer(depends(lives(&tr, "child's oven", &oven{3})))
		for _, each := range []*server.Server{s, middle, child} {
			server.AddTool(each, server.Tool{Name: "tool"}, state)
		}
		mount(t, s, middle, "m_")
		mount(t, middle, child, "c_")
		wantSteps(t, &tr)
		session := connect(t, s, era)
		for tool, want := range map[string]string{"tool": "1", "m_c_tool": "3"} {
			if got := texts(call(t, session, tool, `{}`)); got != want {
				t.Errorf("%s says %s, want %s", tool, got, want)
			}
		}
		wantSteps(t, &tr, "start oven", "start mill", "start child's oven")
		_, err := session.CallTool(t.Context(), "m_tool", nil, nil)
		if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
			t.Errorf("the middle one has an oven: %v", err)
		}
		late := newServer(depends(lives(&tr, "late", 0)))
		mount(t, s, late, "l_")
		wantSteps(t, &tr, "start late")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop late", "stop child's oven", "stop mill", "stop oven")
		if err := s.Mount(newServer(depends(lives(&tr, "too late", 0))).Provider(), &server.MountOptions{Prefix: "t_"}); err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("mounting gives %v", err)
		}
		wantSteps(t, &tr)
	})
}

// TestMountedStartFails: nothing serves, the reason says where, and nothing stays
// started.
func TestMountedStartFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		child := newServer(depends(lives(&tr, "a", 1), lives(&tr, "b", "", errors.New("out of flour"))))
		middle, sibling := newServer(depends()), newServer(depends(lives(&tr, "sibling", 2)))
		mount(t, middle, child, "c_")
		s := newServer(depends(lives(&tr, "oven", oven{})))
		mount(t, s, sibling, "s_")
		mount(t, s, middle, "m_")
		const want = `starting mount 2 (prefix "m_"): starting mount 1 (prefix "c_"): starting string: out of flour`
		if err := s.Start(t.Context()); err == nil || err.Error() != want {
			t.Errorf("starting gives %v, want %s", err, want)
		}
		wantSteps(t, &tr, "start oven", "start sibling", "start a", "start b", "stop a", "stop sibling", "stop oven")

		// While it serves, a server goes on as before.
		serving := newServer(&server.Options{Logger: quiet()})
		session := connect(t, serving, era)
		failing := newServer(depends(lives(&tr, "b", "", errors.New("out of flour"))))
		returns(failing, "tool", "")
		if err := serving.Mount(failing.Provider(), &server.MountOptions{Prefix: "f_"}); err == nil || !strings.HasSuffix(err.Error(), `"f_"): starting string: out of flour`) {
			t.Errorf("mounting gives %v", err)
		}
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		_, err := session.CallTool(t.Context(), "f_tool", nil, nil)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

// TestMountWhileStarting: a dependency may mount what it has found.
func TestMountWhileStarting(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var s *server.Server
		child := newServer(depends(lives(&tr, "child", 7)))
		server.AddTool(child, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (int, error) { return server.Value[int](r), nil })
		s = newServer(depends(server.Provide(func(context.Context) (oven, func(context.Context) error, error) {
			tr.step("mount")
			return oven{}, nil, s.Mount(child.Provider(), &server.MountOptions{Prefix: "c_"})
		})))
		if got := texts(call(t, connect(t, s, era), "c_tool", `{}`)); got != "7" {
			t.Errorf("the tool says %q", got)
		}
		wantSteps(t, &tr, "mount", "start child")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "stop child")
	})
}
