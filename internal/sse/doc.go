// Package sse writes and reads event streams (text/event-stream), as the WHATWG
// HTML standard defines them in section 9.2, "Server-sent events".
//
// # Vocabulary
//
// An [Event] has data, and may have an id, a name and a retry time. [Append]
// turns one into bytes, a [Reader] turns bytes into events, and a [Stream] is
// the response to an HTTP request that sends events as they happen.
//
// # Reading
//
// CR, LF and CRLF end a line, also when a read falls between the two. A byte
// order mark at the beginning is skipped, one space after a colon belongs to it,
// and unknown fields are ignored. A blank line ends an event; one without a data
// line, which only moves the id or the retry time, is no event for the program,
// and neither is one that the stream's end cuts off.
//
// # Concurrency
//
// A Reader belongs to one goroutine at a time. The methods of a Stream may be
// called from any. What is sent is written by a goroutine of the stream, for which
// [Stream.Close] waits.
package sse
