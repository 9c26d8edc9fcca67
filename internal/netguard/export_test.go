package netguard

import "net/netip"

// OnConnect has a function called when an address has been admitted, before it is
// connected to; an error keeps it from being connected to.
func (g *Guard) OnConnect(f func(addr netip.AddrPort) error) { g.connecting = f }
