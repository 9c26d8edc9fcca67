package webclient_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// What a status says of a message, and of who has spoken.
func TestStatus(t *testing.T) {
	for _, test := range []struct {
		status     int
		retryAfter string
		delivery   jsonrpc.Delivery
		notReached bool
		access     bool
	}{
		{201, "", jsonrpc.Rejected, false, false},
		{304, "", jsonrpc.Rejected, false, false},
		{400, "", jsonrpc.Rejected, false, false},
		{401, "", jsonrpc.Rejected, true, true},
		{403, "", jsonrpc.Rejected, true, true},
		{404, "", jsonrpc.Rejected, false, false},
		{413, "", jsonrpc.Rejected, false, false},
		{429, "7", jsonrpc.Rejected, true, true},
		{500, "", jsonrpc.MaybeExecuted, true, false},
		{500, "7", jsonrpc.MaybeExecuted, true, false},
		{502, "", jsonrpc.MaybeExecuted, true, false},
		{503, "", jsonrpc.MaybeExecuted, true, false},
		{503, "7", jsonrpc.Rejected, true, false},
		{504, "", jsonrpc.MaybeExecuted, true, false},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			res := answer(test.status, "")
			if test.retryAfter != "" {
				res.Header.Set("Retry-After", test.retryAfter)
			}
			err := webclient.ReadStatusError(res)
			if got := webclient.DeliveryOf(err); got != test.delivery {
				t.Errorf("delivery: %v", got)
			}
			if isNotReached(err) != test.notReached || webclient.IsAccess(test.status) != test.access {
				t.Errorf("not reached: %t, access: %t", isNotReached(err), webclient.IsAccess(test.status))
			}
		})
	}
}

// An error has what tells how to go on, and of the rest so much that it is recognized.
func TestStatusErrorExcerpt(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for name, read := range map[string]func(res *http.Response) *webclient.StatusError{
		"body read":     func(res *http.Response) *webclient.StatusError { return webclient.NewStatusError(res, []byte(long)) },
		"body not read": webclient.ReadStatusError,
	} {
		res := answer(401, long)
		res.Header = http.Header{"Www-Authenticate": {"Bearer a", "Basic b"}, "Retry-After": {"7"}, "Set-Cookie": {"no"}}
		want := &webclient.StatusError{
			Method: http.MethodPost, Status: 401, Body: strings.Repeat("é", 128),
			Header: http.Header{"Www-Authenticate": {"Bearer a", "Basic b"}, "Retry-After": {"7"}},
		}
		if diff := cmp.Diff(want, read(res)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	cut := webclient.ReadStatusError(answer(500, "x"+long))
	if want := "x" + strings.Repeat("é", 127); cut.Body != want {
		t.Errorf("the excerpt is %q", cut.Body)
	}
}

func TestStatusErrorText(t *testing.T) {
	for want, res := range map[string]*http.Response{
		"POST was answered with status 404 Not Found":                    answer(404, ""),
		`POST was answered with status 500 Internal Server Error: "a\n"`: answer(500, "a\n"),
		"POST was answered with status 599":                              answer(599, ""),
	} {
		if got := webclient.ReadStatusError(res).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// answer is one to a POST.
func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{Method: http.MethodPost},
	}
}
