package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`

func TestMaxListens(t *testing.T) {
	r := serve(t, newServer(), &streamable.Options{MaxListens: 2}).modern("subscriptions/listen", "")
	first := r.post(listen)
	first.message("notifications/subscriptions/acknowledged")
	r.post(listen).message("notifications/subscriptions/acknowledged")
	refused := r.post(listen).is(http.StatusServiceUnavailable)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to come again")
	}
	r.endpoint.Close()
	first.message(`"result":{`)
	first.ends()
}

// Negative limits are none.
func TestLimitsCanBeLifted(t *testing.T) {
	r := serve(t, newServer(), &streamable.Options{
		MaxMessage: -1, WriteTimeout: -1, KeepAlive: -1, MaxListens: -1, MaxSessions: -1, MaxPerPrincipal: -1, SessionTTL: -1,
	})
	r.modern("tools/call", "sum").post(sum(1, 2, 3)+strings.Repeat(" ", streamable.DefaultMaxMessage)).is(http.StatusOK, `"5"`)
	s := r.open(mcp.Version20251125)
	s.send(t.Context(), http.MethodGet, "").next()
	s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"5"`)
	r.modern("subscriptions/listen", "").post(listen).message("notifications/subscriptions/acknowledged")
}
