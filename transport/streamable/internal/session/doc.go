// Package session serves the sessions of streamable HTTP (2025-03-26 to 2025-11-25): their messages, their streams, which a
// client resumes, and their state in a store, so that any replica serves any request of a session.
//
// The state of a session belongs to its handler, a [transport.SessionHandler]. This package stores it and passes it to the
// replica that continues the session.
//
// # Files
//
//  1. http.go answers requests; response.go is one response.
//  2. sessions.go is the table of the sessions that are open in this replica; session.go is one of them; record.go
//     stores sessions, and opens sessions of other replicas.
//  3. stream.go is a stream of events; resume.go continues one for a client that has lost its connection.
//  4. replicas.go exchanges messages with other replicas; lease.go tells which of them have ended.
package session
