package webclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A guest is an Authorizer that counts.
type guest struct {
	t          *testing.T
	authorized int
	challenged []int // statuses
	again      bool
	errs       [2]error // of Authorize and Challenged
}

func (g *guest) Authorize(_ context.Context, server *url.URL, req *http.Request) error {
	g.authorized++
	if server.String() != where || req.Header.Get("Authorization") != "" {
		g.t.Errorf("asked for %s, with %v", server, req.Header)
	}
	req.Header.Set("Authorization", fmt.Sprint(g.authorized))
	return g.errs[0]
}

func (g *guest) Challenged(_ context.Context, _ *url.URL, req *http.Request, res *http.Response) (bool, error) {
	g.challenged = append(g.challenged, res.StatusCode)
	if req.Header.Get("Authorization") != fmt.Sprint(g.authorized) {
		g.t.Errorf("the request was sent with %v", req.Header)
	}
	return g.again, g.errs[1]
}

var errGuest = errors.New("no access")

func TestAuthorizer(t *testing.T) {
	for name, test := range map[string]struct {
		guest      guest
		refusals   []int // before the server admits
		status     int
		sent       int
		challenged []int
		delivery   jsonrpc.Delivery
		err        error
	}{
		"admitted":         {guest{}, nil, 200, 1, nil, 0, nil},
		"again":            {guest{again: true}, []int{401, 403}, 200, 3, []int{401, 403}, 0, nil},
		"not again":        {guest{}, []int{401}, 401, 1, []int{401}, 0, nil},
		"without end":      {guest{again: true}, []int{401, 401, 401, 401, 401, 401}, 401, 4, []int{401, 401, 401}, 0, nil},
		"other refusals":   {guest{again: true}, []int{429}, 429, 1, nil, 0, nil},
		"fails before":     {guest{errs: [2]error{errGuest, nil}}, nil, 0, 0, nil, jsonrpc.NotSent, errGuest},
		"fails at refusal": {guest{errs: [2]error{nil, errGuest}}, []int{403}, 0, 1, []int{403}, jsonrpc.Rejected, errGuest},
	} {
		sent := 0
		server := script(t, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			if sent++; string(text) != "text" || r.Header.Get("Authorization") != fmt.Sprint(sent) || r.Header.Get("Content-Type") != "a/b" {
				t.Errorf("%s: got %q with %v", name, text, r.Header)
			}
			if sent <= len(test.refusals) {
				w.WriteHeader(test.refusals[sent-1])
			}
		})
		for way, given := range ways(t, server) {
			sent = 0
			g := test.guest
			g.t = t
			c := webclient.New(given, nil)
			c.AuthorizeBy(&g, parsed(t, where))
			var progress webclient.Progress
			res, err := c.Post(t.Context(), parsed(t, where), http.Header{"Content-Type": {"a/b"}}, []byte("text"), &progress)
			status := 0
			if err == nil {
				status = res.StatusCode
				res.Body.Close()
			}
			if status != test.status || !errors.Is(err, test.err) || test.err != nil && (!isNotReached(err) || progress.Delivery() != test.delivery) {
				t.Errorf("%s, %s: got %d, %v (%v)", name, way, status, err, progress.Delivery())
			}
			if diff := cmp.Diff(test.challenged, g.challenged); diff != "" || g.authorized != max(test.sent, 1) {
				t.Errorf("%s, %s: %d times, %s", name, way, g.authorized, diff)
			}
		}
	}
}
