package webhook

import (
	"net/http"

	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

// SetTransport replaces the network.
func SetTransport(d delivery.Deliverer, transport http.RoundTripper) {
	d.(*deliverer).client.Transport = transport
}

// Close closes the idle connections of a deliverer that does not run.
func Close(d delivery.Deliverer) { d.(*deliverer).guard.Close() }
