package asking_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// requestKey is the key of the *server.Request in a context.
type requestKey struct{}

// A confirming transport asks the user before it sends a request.
type confirming struct{ http.RoundTripper }

func (c confirming) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Context().Value(requestKey{}).(*server.Request)
	answer, err := server.Elicit[Sure](r, "send", req.Method+" "+req.URL.Path+"?")
	if err != nil {
		return nil, err
	}
	if !answer.Sure {
		return nil, errors.New("the user does not want it")
	}
	return c.RoundTripper.RoundTrip(req)
}

// A bakery answers requests.
type bakery struct{}

func (bakery) RoundTrip(req *http.Request) (*http.Response, error) {
	fmt.Println("the bakery gets", req.Method, req.URL.Path)
	return &http.Response{StatusCode: http.StatusNoContent, Status: "204 No Content", Body: http.NoBody, Request: req}, nil
}

// post sends a request and returns the status of the response.
func post(ctx context.Context, web *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := web.Do(req)
	if err != nil {
		return "", err
	}
	return resp.Status, resp.Body.Close()
}

func Example_blocking() {
	s := newServer()
	web := &http.Client{Transport: confirming{bakery{}}}
	server.AddTool(s, server.Tool{Name: "order", Blocking: true},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			fmt.Println("the function runs")
			ctx = context.WithValue(ctx, requestKey{}, r)
			for _, path := range []string{"/dough", "/bread"} {
				if _, err := post(ctx, web, "https://bakery.example"+path); err != nil {
					return "", err
				}
			}
			return "ordered", nil
		})
	order(s, client.Options{Elicit: fillIn(`{"sure":true}`)})
	// Output:
	// 2026-07-28
	// the function runs
	// asked: POST /dough?
	// the bakery gets POST /dough
	// asked: POST /bread?
	// the bakery gets POST /bread
	// result: ordered
	// 2025-11-25
	// the function runs
	// asked: POST /dough?
	// the bakery gets POST /dough
	// asked: POST /bread?
	// the bakery gets POST /bread
	// result: ordered
}

// A till takes money.
type till interface {
	Charge(ctx context.Context, cents int) error
}

// addPay adds a tool that charges before it asks.
func addPay(s *server.Server, t till, blocking bool) {
	server.AddTool(s, server.Tool{Name: "pay", Blocking: blocking}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if err := t.Charge(ctx, 300); err != nil {
			return "", err
		}
		_, err := server.Elicit[Sure](r, "receipt", "A receipt?")
		return "paid", err
	})
}

// A fakeTill marks what the real one does.
type fakeTill struct{}

func (fakeTill) Charge(ctx context.Context, _ int) error {
	servertest.Effect(ctx, "charge")
	return nil
}

func TestPayChargesOnce(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		s := newServer()
		addPay(s, fakeTill{}, true) // without Blocking, the test fails
		session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Answers: map[string]any{"A receipt?": Sure{true}}})
		if _, err := session.CallTool(t.Context(), "pay", nil, nil); err != nil {
			t.Error(err)
		}
	})
}
