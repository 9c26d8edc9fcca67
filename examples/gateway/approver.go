package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/approval/page"
)

// modes are who can be asked.
var modes = []string{"page", "channel", "terminal", "caller", "none"}

// An approver is who is asked about calls. Without anybody, what has to be asked about is
// refused.
type approver struct {
	approval.Approver

	channel *channel.Channel // nil where nobody comes by the network
	page    bool
}

// newApprover returns the approver of a mode. Who comes by the network shows a token that
// callers do not have; only programs that know of none, at the channel, do without.
func newApprover(o *options, in io.Reader, said io.Writer, logger *slog.Logger) (*approver, error) {
	if !slices.Contains(modes, o.approve) {
		return nil, fmt.Errorf("-approve: expected one of %q, found %q", modes, o.approve)
	}
	switch o.approve {
	case "terminal":
		return &approver{Approver: approval.Terminal(in, said)}, nil
	case "caller":
		return &approver{Approver: approval.ByCaller()}, nil
	case "none":
		return &approver{}, nil
	}
	opts := &channel.Options{Logger: logger}
	if o.approve == "page" {
		opts.Patience = o.expiry + time.Minute // until a call expires, the page can be opened
	} else {
		opts.Open, opts.FailOnDisconnect = o.open, true
	}
	c, err := channel.New(opts)
	return &approver{Approver: c, channel: c, page: o.approve == "page"}, err
}

// route adds what the approver is reached by.
func (a *approver) route(mux *http.ServeMux) {
	if a.channel != nil {
		mux.Handle("/approval", a.channel)
	}
	if a.page {
		mux.Handle("/approvals/", page.Handler(&page.Options{Channel: "/approval"}))
	}
}

// introduce tells the operator where to decide. It is the only place that tells the token.
func (a *approver) introduce(said io.Writer, address string) {
	switch {
	case a.page:
		fmt.Fprintf(said, "approve  http://%s/approvals/#token=%s\n", address, a.channel.Token())
	case a.channel != nil:
		fmt.Fprintf(said, "approve  ws://%s/approval with the token %s\n", address, a.channel.Token())
	}
}

// close sends approvers away: what waits for them is refused.
func (a *approver) close() error {
	if a.channel == nil {
		return nil
	}
	return a.channel.Close()
}
