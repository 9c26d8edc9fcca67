// Package sse encodes and decodes event streams (text/event-stream), as defined in the WHATWG
// HTML standard, section 9.2, "Server-sent events".
//
// An [Event] has data and may have an id, a name and a retry time. [Append] encodes an event, a
// [Reader] decodes events, and a [Stream] is the response to an HTTP request that sends events.
//
// CR, LF and CRLF end a line, also when a read separates CR and LF. A Reader skips a byte order
// mark at the beginning and unknown fields. A blank line ends an event. An event without a data
// line changes only the id or the retry time; Next does not return it. An event that the end of
// the stream cuts off is dropped.
//
// A Reader may be used by one goroutine at a time. The methods of a Stream may be called
// concurrently; it writes on a goroutine of its own, for which [Stream.Close] waits.
package sse
