package mcp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// The method decides which member names the subject, whatever other members there are.
func TestSubject(t *testing.T) {
	for _, test := range []struct {
		method, params, subject string
		uris                    []string
	}{
		{mcp.MethodToolsCall, `{"name":"add","uri":"mem://a","ref":{"name":"x"}}`, "add", nil},
		{mcp.MethodPromptsGet, `{"uri":"mem://a","name":"pr\u006fmpt"}`, "prompt", nil},
		{mcp.MethodResourcesRead, `{"name":"add","uri":"mem://a"}`, "mem://a", nil},
		{mcp.MethodResourcesSubscribe, `{"uri":"mem://a"}`, "mem://a", nil},
		{mcp.MethodResourcesUnsubscribe, `{"uri":"mem://a"}`, "mem://a", nil},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt","uri":"mem://a"}}`, "prompt", nil},
		{mcp.MethodComplete, `{"ref":{"type":"ref/resource","name":"prompt","uri":"mem://{a}"}}`, "mem://{a}", nil},
		{mcp.MethodToolsCall, `{"name":7}`, "", nil},
		{mcp.MethodToolsCall, `{}`, "", nil},
		{mcp.MethodToolsList, `{"name":"add"}`, "", nil},
		{mcp.MethodSubscriptionsListen, `{"uri":"mem://a","notifications":{"resourceSubscriptions":["mem://a","mem://b"]}}`, "", []string{"mem://a", "mem://b"}},
		{mcp.MethodSubscriptionsListen, `{"notifications":["mem://a"]}`, "", nil},
		{mcp.MethodToolsCall, `{"name":"add","notifications":{"resourceSubscriptions":["mem://a"]}}`, "add", nil},
	} {
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), test.method, []byte(test.params))
		if err != nil {
			t.Fatal(err)
		}
		if got := mcp.Subject(req.Method, req.Member); got != test.subject {
			t.Errorf("%s %s: got %q, want %q", test.method, test.params, got, test.subject)
		}
		if got := mcp.SubscribedURIs(req.Method, req.Member); !slices.Equal(got, test.uris) {
			t.Errorf("%s %s: got %q, want %q", test.method, test.params, got, test.uris)
		}
	}
}

func ExampleSubject() {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodResourcesRead, []byte(`{"uri":"mem://profile"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mcp.Subject(req.Method, req.Member))
	// Output: mem://profile
}
