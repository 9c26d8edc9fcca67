package netguard

import "net/netip"

// OnConnect sets a function that is called before a connection to an allowed address. An
// error prevents the connection.
func (g *Guard) OnConnect(f func(addr netip.AddrPort) error) { g.connecting = f }
