package interop

import (
	"context"
	"net/http"
)

// A host is a server that a guest can connect to. Every host offers
//
//	tools      add, fail, refuse, echo, route, show, climb, log, wait, nap, order, survey, ask, roots
//	resources  test://text, test://picture, test://clock
//	template   test://greeting/{name}
//	prompt     greet
//
// and completes the variable name of the template and of the prompt.
type host struct {
	handler http.Handler
	close   func()
	bell    *bell
	// toggle adds the tool extra, or takes it out, turn changes test://clock.
	toggle, turn func() error
	// again, where notifications get lost, tells everyone once more of a change: of
	// "tools", or of a resource.
	again func(change string)
}

// leave ends the host. Whoever waits is let go.
func (h *host) leave() {
	close(h.bell.release)
	h.close()
}

// A bell tells the tests what goes on in a host's tool wait.
type bell struct {
	waiting chan struct{} // a call has begun
	stopped chan error    // its context has ended, and this is its error
	awake   chan struct{} // gets one when the tool nap may go on
	release chan struct{} // closed: all calls may end
}

func newBell() *bell {
	return &bell{waiting: make(chan struct{}, 8), stopped: make(chan error, 8), awake: make(chan struct{}), release: make(chan struct{})}
}

// wait is what the tool wait does.
func (b *bell) wait(ctx context.Context) (string, error) {
	b.waiting <- struct{}{}
	select {
	case <-b.release:
		return "released", nil
	case <-ctx.Done():
		b.stopped <- ctx.Err()
		return "", ctx.Err()
	}
}

// nap is what the tool nap does once it has sent its guest away: it waits until it
// may go on.
func (b *bell) nap(ctx context.Context) (string, error) {
	select {
	case <-b.release:
	case <-b.awake:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return "rested", nil
}

// What the hosts offer, the same everywhere.
const (
	textURI    = "test://text"
	pictureURI = "test://picture"
	clockURI   = "test://clock"
	greetings  = "test://greeting/{name}"
)

var pixel = []byte("\x89PNG\r\n\x1a\n")

// names are what the hosts complete with.
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

// routed takes its argument out of a header too, where there are such.
const routed = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`

type region struct {
	Region string `json:"region"`
}

// order is a form.
type order struct {
	Loaves int `json:"loaves"`
}

type color struct {
	Color string `json:"color"`
}
