package era_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func acknowledgement(id, filter string) string {
	return told(mcp.NotificationAcknowledged, `{"notifications":`+filter+`,"_meta":`+tag(id)+`}`)
}

// changesOf collects what a client is told.
func changesOf(opts *client.Options) *[]mcp.Change {
	var changes []mcp.Change
	opts.Changed = func(_ context.Context, change mcp.Change) { changes = append(changes, change) }
	return &changes
}

// TestClientListens: a modern subscription is a call that lasts.
func TestClientListens(t *testing.T) {
	for name, test := range map[string]struct {
		end func(id string) string
		err bool
	}{
		"result": {func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","_meta":` + tag(id) + `}}`
		}, false},
		"cancellation": {func(id string) string { return told(mcp.NotificationCancelled, `{"requestId":`+id+`}`) }, false},
		"error": {func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"too many"}}`
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var id string
				h := eratest.ModernHost(t, func(frame string) []string {
					id = eratest.At(frame, "id")
					return []string{
						acknowledgement(`"stranger"`, `{"promptsListChanged":true}`),
						acknowledgement(id, `{"toolsListChanged":true}`),
						told(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`),
						told(mcp.NotificationResourceUpdated, `{"uri":"a:b","_meta":`+tag(id)+`}`),
						told(mcp.NotificationResourceUpdated, `{}`),
					}
				})
				var opts client.Options
				changes := changesOf(&opts)
				s := session(t, h, &opts)
				sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := sub.Agreed(); !got.ToolsListChanged || got.PromptsListChanged {
					t.Errorf("the server agrees to %+v", got)
				}
				eratest.Pass(24 * time.Hour)
				if want := []mcp.Change{{Kind: mcp.KindTool}, {Kind: mcp.KindResource, URI: "a:b"}}; !slices.Equal(*changes, want) {
					t.Errorf("the client is told %v, want %v", *changes, want)
				}
				h.Push(test.end(id))
				synctest.Wait()
				select {
				case <-sub.Done():
				default:
					t.Fatal("the subscription goes on")
				}
				if err := sub.Err(); (err != nil) != test.err {
					t.Errorf("the subscription ends with %v, want an error: %t", err, test.err)
				}
			})
		})
	}
}

// TestClientStopsListening: it cancels its own subscription only.
func TestClientStopsListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.ModernHost(t, func(frame string) []string {
			return []string{acknowledgement(eratest.At(frame, "id"), `{}`)}
		})
		s := session(t, h, nil)
		var subs []*client.Subscription
		for range 2 {
			sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		subs[0].Close()
		synctest.Wait()
		heard := h.Heard()
		eratest.Want(t, heard[len(heard)-1], eratest.At(heard[1], "id"), "params", "requestId")
		select {
		case <-subs[1].Done():
			t.Error("the other subscription ends too")
		default:
		}
		if err := subs[1].Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestClientSubscribes: a legacy subscription is a request for each resource.
func TestClientSubscribes(t *testing.T) {
	for _, refuse := range []string{"", "b:2"} {
		synctest.Test(t, func(t *testing.T) {
			h := eratest.NewHost(t, func(frame string) []string {
				switch eratest.Text(frame, "method") {
				case mcp.MethodDiscover:
					return []string{eratest.Fail(frame, jsonrpc.MethodNotFound, "")}
				case mcp.MethodInitialize:
					return []string{eratest.Reply(frame, `{"protocolVersion":"2025-03-26","capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true}},"serverInfo":{"name":"host","version":"1"}}`)}
				case mcp.NotificationInitialized:
					return nil
				}
				if refuse != "" && eratest.Text(frame, "params", "uri") == refuse {
					return []string{eratest.Fail(frame, jsonrpc.InvalidParams, "")}
				}
				return []string{eratest.Reply(frame, "{}")}
			})
			s := session(t, h, nil)
			sub, err := s.Subscribe(t.Context(), mcp.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"a:1", "b:2"},
			})
			if err == nil {
				if got := sub.Agreed(); !got.ToolsListChanged || got.PromptsListChanged || len(got.ResourceSubscriptions) != 2 {
					t.Errorf("the server agrees to %+v", got)
				}
				sub.Close()
			}
			var refused *jsonrpc.Error
			if (refuse != "") != errors.As(err, &refused) {
				t.Errorf("subscribing gives %v", err)
			}
			synctest.Wait()
			var sent []string
			for _, frame := range h.Heard()[3:] {
				sent = append(sent, fmt.Sprint(eratest.Text(frame, "method"), " ", eratest.Text(frame, "params", "uri")))
			}
			want := []string{"resources/subscribe a:1", "resources/subscribe b:2", "resources/unsubscribe a:1", "resources/unsubscribe b:2"}
			if refuse != "" {
				want = want[:3]
			}
			if !slices.Equal(sent, want) {
				t.Errorf("the client sends %q, want %q", sent, want)
			}
		})
	}
}
