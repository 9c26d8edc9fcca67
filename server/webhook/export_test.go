package webhook

import "net/http"

// SetTransport replaces the network.
func (d *Deliverer) SetTransport(transport http.RoundTripper) { d.client.Transport = transport }

// Close closes the idle connections of a deliverer that does not run.
func (d *Deliverer) Close() { d.guard.Close() }
