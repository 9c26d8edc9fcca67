package proxy

// LimitStates reduces the number of used states that a proxy remembers.
func LimitStates(p *Proxy, n int) { p.states.Resize(n) }
