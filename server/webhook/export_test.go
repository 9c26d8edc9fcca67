package webhook

import "net/http"

// SetTransport replaces the network.
func (d *Deliverer) SetTransport(transport http.RoundTripper) { d.client.Transport = transport }
