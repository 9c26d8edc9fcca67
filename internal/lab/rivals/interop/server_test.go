package interop

import (
	"context"
	"net/http"
)

// A testServer is a server of one SDK. Every server has
//
//	tools      add, fail, refuse, echo, route, show, climb, log, wait, nap, order, survey, ask, roots
//	resources  test://text, test://picture, test://clock
//	template   test://greeting/{name}
//	prompt     greet
//
// and completions of the argument "name" of the template and of the prompt.
type testServer struct {
	handler http.Handler
	close   func()
	events  *toolEvents
	// toggle adds or removes the tool extra. turn changes test://clock.
	toggle, turn func() error
	// again, if not nil, repeats the notification of a change of "tools" or of a resource. It
	// is set if the SDK loses notifications.
	again func(change string)
}

// leave ends running calls and closes the server.
func (h *testServer) leave() {
	close(h.events.release)
	h.close()
}

// toolEvents synchronizes the tests with the tools wait and nap.
type toolEvents struct {
	waiting chan struct{} // receives a value when a call of wait begins
	stopped chan error    // receives the error of a canceled call of wait
	awake   chan struct{} // receives a value to end a call of nap
	release chan struct{} // closed to end all calls
}

func newToolEvents() *toolEvents {
	return &toolEvents{waiting: make(chan struct{}, 8), stopped: make(chan error, 8), awake: make(chan struct{}), release: make(chan struct{})}
}

// wait is the function of the tool wait.
func (b *toolEvents) wait(ctx context.Context) (string, error) {
	b.waiting <- struct{}{}
	select {
	case <-b.release:
		return "released", nil
	case <-ctx.Done():
		b.stopped <- ctx.Err()
		return "", ctx.Err()
	}
}

// nap is the function of the tool nap after it has disconnected the client.
func (b *toolEvents) nap(ctx context.Context) (string, error) {
	select {
	case <-b.release:
	case <-b.awake:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return "rested", nil
}

// URIs of the entries.
const (
	textURI    = "test://text"
	pictureURI = "test://picture"
	clockURI   = "test://clock"
	greetings  = "test://greeting/{name}"
)

var pixel = []byte("\x89PNG\r\n\x1a\n")

// namesLike returns the values of the completions.
func namesLike(typed string) []string {
	var names []string
	for _, name := range []string{"Ada", "Alan", "Grace"} {
		if len(typed) <= len(name) && name[:len(typed)] == typed {
			names = append(names, name)
		}
	}
	return names
}

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

type total struct {
	Sum int `json:"sum"`
}

type words struct {
	Text string `json:"text"`
}

// routed is an input schema with an argument that is repeated in a header.
const routed = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`

type region struct {
	Region string `json:"region"`
}

// order is the content of a form.
type order struct {
	Loaves int `json:"loaves"`
}

type color struct {
	Color string `json:"color"`
}
