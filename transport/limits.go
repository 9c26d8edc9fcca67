package transport

import (
	"cmp"
	"math"
	"time"
)

// Limits bounds what the clients of one HTTP endpoint can use, all clients together unless a
// field says otherwise. For each field, 0 means the default and a negative value means no limit,
// which is not safe where strangers can connect.
//
// A request beyond a limit has status 503 and a Retry-After header. A call beyond a limit that
// came over a session gets the error [jsonrpc.Busy]. In both cases the call was not executed.
type Limits struct {
	// MessageBytes is the maximum length of a message in bytes. A longer body is refused with
	// status 413. A longer WebSocket message ends its session with the code 1009. Default: 4 MiB.
	MessageBytes int64
	// HeldBytes is how many bytes of messages longer than 64 KiB are held at a time. A message
	// counts from the moment when its 64 KiB have arrived until the call has been answered; an answer
	// to a question counts until the call that has asked has been answered. A
	// message beyond the limit waits up to 2 s before it is refused. Messages up to 64 KiB do not
	// count. A limit below MessageBytes refuses the messages in between. Default: 32 MiB.
	HeldBytes int64
	// Calls is the maximum number of running calls. Subscriptions, and the pings and handshakes of
	// versions until 2025-11-25, do not count. Default: 1,024.
	Calls int
	// CallsPerPrincipal is the maximum number of running calls, and of open subscriptions, of one
	// authenticated client. A client that is not authenticated, see [WithRequest], has this limit while
	// half of Calls, or of Subscriptions, are used. Default: 256.
	CallsPerPrincipal int
	// Sessions is the maximum number of sessions: of clients of versions until 2025-11-25 over
	// streamable HTTP, and of all clients over SSE and WebSocket. Default: 10,000.
	Sessions int
	// SessionsPerPrincipal is the maximum number of sessions of one authenticated client. A client that
	// is not authenticated has this limit while half of Sessions are used. Default: 100.
	SessionsPerPrincipal int
	// Subscriptions is the maximum number of open subscriptions (2026-07-28). Default: 1,024.
	Subscriptions int
	// SessionTTL is how long a session over streamable HTTP may be idle before it ends. Sessions
	// over SSE and WebSocket end with their connection. Default: 30 minutes.
	SessionTTL time.Duration
	// WriteTimeout bounds one write of at most 64 KiB, or of one WebSocket message. A slower
	// client is disconnected. Default: 10 s.
	WriteTimeout time.Duration
}

// A Usage is how much of a limit is in use.
type Usage struct {
	Used int64
	Max  int64 // 0 if there is no limit
}

// WithDefaults returns a copy with the default in place of 0, and with the largest value in place
// of a negative one.
func (l Limits) WithDefaults() Limits {
	const forever = time.Duration(1 << 60)
	return Limits{
		MessageBytes:         orDefault(l.MessageBytes, 4<<20, 1<<60),
		HeldBytes:            orDefault(l.HeldBytes, 32<<20, 1<<60),
		Calls:                orDefault(l.Calls, 1024, math.MaxInt),
		CallsPerPrincipal:    orDefault(l.CallsPerPrincipal, 256, math.MaxInt),
		Sessions:             orDefault(l.Sessions, 10_000, math.MaxInt),
		SessionsPerPrincipal: orDefault(l.SessionsPerPrincipal, 100, math.MaxInt),
		Subscriptions:        orDefault(l.Subscriptions, 1024, math.MaxInt),
		SessionTTL:           orDefault(l.SessionTTL, 30*time.Minute, forever),
		WriteTimeout:         orDefault(l.WriteTimeout, 10*time.Second, forever),
	}
}

func orDefault[T int | int64 | time.Duration](value, byDefault, none T) T {
	if value < 0 {
		return none
	}
	return cmp.Or(value, byDefault)
}
