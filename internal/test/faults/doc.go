// Package faults injects faults into connections and runs misbehaving child processes, for
// tests.
//
// A [Proxy] forwards TCP connections to a server and breaks one of them at a chosen byte:
//
//	proxy := faults.NewProxy(t, server.Listener.Addr().String())
//	proxy.Arm(faults.Fault{Kind: faults.Reset, Direction: faults.ToClient, After: 100})
//	session, err := client.Connect(ctx, streamable.Dial("http://"+proxy.Addr(), nil), nil)
//
// An [Injector] does the same for other connections, such as the pipes of a child process.
// [RunChild] is the main function of a child process that misbehaves.
//
// A fault strikes after an exact number of bytes and does not depend on time. How many bytes
// the receiver gets before an error is up to the operating system: after a reset it may get
// fewer.
package faults
